//! Whether the MPI library at run time serves a program that was built for another one.
//!
//! MPICH numbers its binary interface as libtool does, `current:revision:age`, and says the numbers in
//! `MPI_Get_library_version`. A library serves the programs that were built for the interfaces from
//! `current − age` to `current`. In 4.2.3 (16:3:4), 4.3.2 (17:2:5) and 5.0.2 (18:2:6) these begin with 12,
//! the number in `libmpi.so.12`: a newer library serves older programs. The loader would let an older one
//! serve a newer program as well; so it is checked here. `tests/bindings.rs` compares what the interface
//! promises.

use std::fmt;
use std::sync::OnceLock;

use super::environment::Environment;
use super::error::{Error, Result};

/// The interface numbers of an MPICH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interface {
    current: u32,
    revision: u32,
    age: u32,
}

impl Interface {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().split(':').map(|number| number.parse().ok());
        let interface = Self {
            current: numbers.next()??,
            revision: numbers.next()??,
            age: numbers.next()??,
        };
        (numbers.next().is_none() && interface.age <= interface.current).then_some(interface)
    }

    fn serves(self, built_for: Self) -> bool {
        (self.current - self.age..=self.current).contains(&built_for.current)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.current, self.revision, self.age)
    }
}

/// An MPI library: the one that this program was built for, or the one that it has met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// `MPICH 4.2.3`, or the first line of what another MPI says of itself.
    name: String,
    interface: Option<Interface>,
}

impl Library {
    /// The MPICH that this program was built for.
    #[must_use]
    pub fn built_for() -> Self {
        Self {
            name: format!("MPICH {}", crate::MPICH_VERSION),
            interface: Interface::parse(env!("MALLEUS_MPICH_ABI")),
        }
    }

    /// The library that this process runs with. Local; `MPI_Get_library_version`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn at_run_time() -> Result<Self> {
        Environment::library_version().map(|text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))
                .map(str::trim)
        };
        Self {
            name: match value("MPICH Version") {
                Some(version) => format!("MPICH {version}"),
                None => text.lines().next().unwrap_or_default().trim().to_owned(),
            },
            interface: value("MPICH ABI").and_then(Interface::parse),
        }
    }

    /// Major and minor version of an MPICH; `None` for another MPI.
    pub(super) fn mpich_version(&self) -> Option<(u32, u32)> {
        let version = self.name.strip_prefix("MPICH ")?;
        let mut numbers = version.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    }

    /// Whether this is another library, as far as both tell.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        let interfaces = self.interface.zip(other.interface);
        self.name != other.name || interfaces.is_some_and(|(one, other)| one != other)
    }

    /// What is wrong with this library for a program that was built for another one.
    fn refusal(&self, built_for: &Self) -> Option<String> {
        // Where an MPICH did not tell its interface at build time, nothing can be said.
        let wanted = built_for.interface?;
        let serves = match self.interface {
            Some(interface) if interface.serves(wanted) => return None,
            Some(Interface { current, age, .. }) => format!(
                "which serves programs built for ABI {} to {current}",
                current - age
            ),
            None => "which is no MPICH that tells its ABI".to_owned(),
        };
        Some(format!(
            "the MPI library at run time is {self}, {serves}; this program was built for {built_for}: put the \
             library folder of that one first in LD_LIBRARY_PATH, or build again with MPICC naming this one's mpicc"
        ))
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interface {
            Some(interface) => write!(f, "{} (ABI {interface})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Whether this process runs with MPICH 4.0, which gets some things wrong (decision record 15).
pub(super) fn is_mpich_4_0() -> bool {
    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(|| {
        Library::at_run_time().is_ok_and(|library| library.mpich_version() == Some((4, 0)))
    })
}

/// Refuses a library that does not serve this program.
pub(super) fn check() -> Result<()> {
    match Library::at_run_time()?.refusal(&Library::built_for()) {
        None => Ok(()),
        Some(reason) => Err(Error::state("MPI_Get_library_version", reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mpich(version: &str, abi: &str) -> Library {
        Library::parse(&format!(
            "MPICH Version:      {version}\nMPICH Release date: today\nMPICH ABI:          {abi}\n"
        ))
    }

    #[test]
    fn a_newer_library_serves_and_an_older_does_not() {
        let [old, reference, newer, newest] = [
            mpich("4.0.2", "14:2:2"),
            mpich("4.2.3", "16:3:4"),
            mpich("4.3.2", "17:2:5"),
            mpich("5.0.2", "18:2:6"),
        ];
        for library in [&reference, &newer, &newest] {
            assert_eq!(library.refusal(&reference), None);
            assert_eq!(library.refusal(&old), None);
        }
        let refusal = reference.refusal(&newest).unwrap();
        assert!(
            refusal.starts_with(
                "the MPI library at run time is MPICH 4.2.3 (ABI 16:3:4), which serves programs built for ABI 12 to 16; \
                 this program was built for MPICH 5.0.2 (ABI 18:2:6): "
            ),
            "{refusal}"
        );
        assert_eq!(
            [&old, &newest].map(Library::mpich_version),
            [Some((4, 0)), Some((5, 0))]
        );
        // An interface that was broken.
        assert!(mpich("6.0", "19:0:0").refusal(&reference).is_some());
    }

    #[test]
    fn what_is_no_mpich_is_refused_by_its_own_name() {
        let other = Library::parse("Another MPI 7, patch 3\nfor everybody\n");
        let refusal = other.refusal(&mpich("4.2.3", "16:3:4")).unwrap();
        assert!(
            refusal.starts_with(
                "the MPI library at run time is Another MPI 7, patch 3, which is no MPICH"
            ),
            "{refusal}"
        );
        assert_eq!(other.mpich_version(), None);
        let silent = Library::parse("MPICH Version: 4.0.2\n");
        assert_eq!(other.refusal(&silent), None);
        assert!(other.differs_from(&silent) && !mpich("4.0.2", "14:2:2").differs_from(&silent));
        for broken in ["16", "16:3", "16:3:4:5", "1:2:3", "a:b:c"] {
            assert_eq!(Interface::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn this_program_runs_with_a_library_that_serves_it() {
        check().unwrap();
    }
}
