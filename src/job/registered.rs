//! How the job reaches what it has handed out to the application.

use super::array::Stored;
use super::error::Error;
use super::packed::Image;
use crate::mpi::TypeMap;

/// An array or a value, seen without its type.
pub enum EntryMut<'a> {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    Array(&'a mut Stored),
    #[doc(hidden)]
    Value {
        name: &'a str,
        type_map: TypeMap,
        bytes: &'a mut [u8],
    },
}

/// How the job reaches into what it has handed out.
#[doc(hidden)]
pub trait Entry {
    fn entries(&mut self) -> Vec<EntryMut<'_>>;

    /// Before a switch moves what the application changes: that in a form which moves.
    #[allow(private_interfaces)]
    fn pack(&mut self) -> Option<Image<'_>> {
        None
    }

    /// After it: back into the application's own form.
    fn unpack(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// What is registered with a job: [`super::Array`], [`super::ConstantArray`], [`super::Replicated`], [`super::Packed`],
/// [`super::ConstantPacked`].
pub trait Registered: Entry {}

/// Everything that the application has registered, for `commit`: a tuple of `&mut` to arrays and values,
/// or a slice of `&mut dyn Registered`.
pub trait RegisteredSet {
    /// Its elements.
    fn registered(&mut self) -> Vec<&mut dyn Registered>;
}

impl RegisteredSet for [&mut dyn Registered] {
    fn registered(&mut self) -> Vec<&mut dyn Registered> {
        self.iter_mut()
            .map(|one| &mut **one as &mut dyn Registered)
            .collect()
    }
}

impl RegisteredSet for Vec<&mut dyn Registered> {
    fn registered(&mut self) -> Vec<&mut dyn Registered> {
        self.as_mut_slice().registered()
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Registered),*> RegisteredSet for ($(&mut $name,)*) {
            #[allow(non_snake_case)]
            fn registered(&mut self) -> Vec<&mut dyn Registered> {
                let ($($name,)*) = self;
                vec![$(&mut **$name as &mut dyn Registered),*]
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);
