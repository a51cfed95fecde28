//! The C library: `extern "C"` functions, from which `ffi/malleus.h` is generated (`make header`).
//!
//! Names are C's. What every function here keeps to:
//!
//! * it returns a [`malleus_result`], or text that lives for ever; what it gives comes through pointers;
//! * a NULL pointer, a call from another thread, a job that has ended each give a code, not a crash;
//! * it is a boundary for panics (`guard`): none crosses into C;
//! * who owns a pointer is in its documentation: an *owned* one goes back to the function that is named
//!   there, a *borrowed* one is never freed by C;
//! * a handle is checked for its thread and against being used inside of its own callback by
//!   `Handle`.
#![allow(unsafe_code, non_camel_case_types)]

mod array;
mod handle;
mod job;
mod result;

pub use array::{
    malleus_array, malleus_array_block, malleus_array_block_of, malleus_array_data,
    malleus_array_packed, malleus_array_read, malleus_pack, malleus_type, malleus_unpack,
};
pub use job::{
    malleus_before_switch, malleus_checkpoint, malleus_job, malleus_job_checkpoint,
    malleus_job_communicator, malleus_job_end, malleus_job_is_first_start, malleus_job_iteration,
    malleus_job_rank, malleus_job_resizes, malleus_job_size, malleus_job_start, malleus_method,
    malleus_options, malleus_prepare, malleus_strategy,
};
pub use result::{
    malleus_last_error, malleus_result, malleus_result_leaves_job_whole, malleus_result_name,
    malleus_version,
};
