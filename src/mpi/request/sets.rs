//! Several requests at once (MPI standard, chapter 3.7.5).
//!
//! Requests that are complete are left out, as null requests are in MPI.

use std::ffi::c_int;

use super::Request;
use crate::mpi::datatype::{int, unsigned};
use crate::mpi::error::{Error, ErrorClass, Result, mpi};
use crate::mpi::point_to_point::Status;
use crate::sys;

/// What [`test_any`] found.
#[derive(Debug)]
pub enum TestAny {
    /// The operation at this index is complete now.
    Complete(usize, Status),
    /// None is complete now.
    Pending,
    /// All were complete before.
    Finished,
}

/// Waits for all operations; their statuses. Blocking; `MPI_Waitall`.
///
/// # Errors
///
/// The MPI error of the first operation that failed.
pub fn wait_all(requests: &mut [Request<'_>]) -> Result<Vec<Status>> {
    let mut statuses = vec![Status::empty(); requests.len()];
    on_all("MPI_Waitall", requests, |count, raw| {
        // SAFETY: `raw` holds `count` requests, valid or null, and there is a status for each.
        let waited = unsafe { mpi!(MPI_Waitall(count, raw, statuses.as_mut_ptr())) };
        first_error(waited, &statuses)
    })?;
    Ok(statuses.into_iter().map(Status::new).collect())
}

/// Whether all operations are complete; their statuses if so. Local; `MPI_Testall`.
///
/// # Errors
///
/// The MPI error of the first operation that failed.
pub fn test_all(requests: &mut [Request<'_>]) -> Result<Option<Vec<Status>>> {
    let mut statuses = vec![Status::empty(); requests.len()];
    let mut done: c_int = 0;
    on_all("MPI_Testall", requests, |count, raw| {
        // SAFETY: as for `wait_all`.
        let tested = unsafe {
            mpi!(MPI_Testall(
                count,
                raw,
                &raw mut done,
                statuses.as_mut_ptr()
            ))
        };
        first_error(tested, &statuses)
    })?;
    Ok((done != 0).then(|| statuses.into_iter().map(Status::new).collect()))
}

/// Waits for one of the operations: its index and status; `None` if all were complete before.
/// Blocking; `MPI_Waitany`.
///
/// # Errors
///
/// The MPI error of the operation.
pub fn wait_any(requests: &mut [Request<'_>]) -> Result<Option<(usize, Status)>> {
    let (mut index, mut status) = (0, Status::empty());
    on_all("MPI_Waitany", requests, |count, raw| {
        // SAFETY: `raw` holds `count` requests, valid or null.
        unsafe { mpi!(MPI_Waitany(count, raw, &raw mut index, &raw mut status)) }
    })?;
    Ok(usize::try_from(index)
        .ok()
        .map(|index| (index, Status::new(status))))
}

/// Looks for one operation that is complete. Local; `MPI_Testany`.
///
/// # Errors
///
/// The MPI error of the operation.
pub fn test_any(requests: &mut [Request<'_>]) -> Result<TestAny> {
    let (mut index, mut done, mut status) = (0, 0, Status::empty());
    on_all("MPI_Testany", requests, |count, raw| {
        // SAFETY: `raw` holds `count` requests, valid or null.
        unsafe {
            mpi!(MPI_Testany(
                count,
                raw,
                &raw mut index,
                &raw mut done,
                &raw mut status
            ))
        }
    })?;
    // MPI_UNDEFINED, where none is active, is negative.
    Ok(match (done != 0, usize::try_from(index)) {
        (true, Ok(index)) => TestAny::Complete(index, Status::new(status)),
        (true, Err(_)) => TestAny::Finished,
        (false, _) => TestAny::Pending,
    })
}

/// Waits for at least one of the operations: the indices and statuses of those that are complete now;
/// `None` if all were complete before. Blocking; `MPI_Waitsome`.
///
/// # Errors
///
/// The MPI error of the first operation that failed.
pub fn wait_some(requests: &mut [Request<'_>]) -> Result<Option<Vec<(usize, Status)>>> {
    some(
        "MPI_Waitsome",
        requests,
        |count, raw, found, indices, statuses| {
            // SAFETY: `some` passes `count` requests, valid or null, and room for as many results.
            unsafe { mpi!(MPI_Waitsome(count, raw, found, indices, statuses)) }
        },
    )
}

/// The indices and statuses of the operations that are complete now; `None` if all were complete
/// before. Local; `MPI_Testsome`.
///
/// # Errors
///
/// The MPI error of the first operation that failed.
pub fn test_some(requests: &mut [Request<'_>]) -> Result<Option<Vec<(usize, Status)>>> {
    some(
        "MPI_Testsome",
        requests,
        |count, raw, found, indices, statuses| {
            // SAFETY: as for `wait_some`.
            unsafe { mpi!(MPI_Testsome(count, raw, found, indices, statuses)) }
        },
    )
}

fn some(
    operation: &'static str,
    requests: &mut [Request<'_>],
    call: impl FnOnce(
        c_int,
        *mut sys::MPI_Request,
        *mut c_int,
        *mut c_int,
        *mut sys::MPI_Status,
    ) -> Result<()>,
) -> Result<Option<Vec<(usize, Status)>>> {
    let mut found: c_int = 0;
    let mut indices = vec![0; requests.len()];
    let mut statuses = vec![Status::empty(); requests.len()];
    on_all(operation, requests, |count, raw| {
        let (indices, results) = (indices.as_mut_ptr(), statuses.as_mut_ptr());
        let called = call(count, raw, &raw mut found, indices, results);
        let found = usize::try_from(found).unwrap_or(0);
        first_error(called, &statuses[..found])
    })?;
    // MPI_UNDEFINED, where none is active, is negative.
    let Ok(found) = usize::try_from(found) else {
        return Ok(None);
    };
    let complete = indices.into_iter().map(unsigned);
    let statuses = statuses.into_iter().map(Status::new);
    Ok(Some(complete.zip(statuses).take(found).collect()))
}

/// Lends the handles to an MPI call and keeps what it made of them.
fn on_all<R>(
    operation: &'static str,
    requests: &mut [Request<'_>],
    call: impl FnOnce(c_int, *mut sys::MPI_Request) -> Result<R>,
) -> Result<R> {
    let count = int(operation, "count", requests.len())?;
    let mut raw: Vec<_> = requests.iter().map(Request::as_raw).collect();
    let result = call(count, raw.as_mut_ptr());
    for (request, raw) in requests.iter_mut().zip(raw) {
        request.set_raw(raw);
    }
    result
}

/// The error of a call on several requests: that of the first one that failed, where MPI says so.
pub(super) fn first_error(result: Result<()>, statuses: &[sys::MPI_Status]) -> Result<()> {
    let Err(Error::Call {
        operation,
        class: ErrorClass::IN_STATUS,
        ..
    }) = result
    else {
        return result;
    };
    let is_failure =
        |code: &c_int| ![sys::MPI_SUCCESS as c_int, sys::MPI_ERR_PENDING as c_int].contains(code);
    let mut codes = statuses.iter().map(|status| status.MPI_ERROR);
    match codes.find(is_failure) {
        Some(code) => Err(Error::from_code(operation, code)),
        None => result,
    }
}
