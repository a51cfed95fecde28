//! Wait Targets: paper R's Complete_RMA, the three flows of its figure 4, as one state machine.
//!
//! | role | while reading | then |
//! |---|---|---|
//! | target only | waits for its reads | Ibarrier, Wait |
//! | source only | – | Ibarrier, then Compute and Test(Ibarrier) in turns |
//! | both | Compute and Testall(Rgets) in turns | Ibarrier, then Compute and Test(Ibarrier) in turns |
//!
//! When the barrier is through, everybody has its data: unlock, free. No step is a blocking collective on a
//! source before that.
//!
//! Freeing is a step of its own here. In the figure it follows the test that finds the barrier through; but ranks
//! find that out in different iterations, and one that is in `MPI_Win_free` then would wait for another one that
//! waits for it in a collective of the application. So the application frees where all of its ranks are.

use super::Role;

/// What the flows ask of a transport.
pub(super) trait Transport {
    type Error;
    /// Testall(Rgets).
    fn test_reads(&mut self) -> Result<bool, Self::Error>;
    /// Waits for the reads.
    fn wait_reads(&mut self) -> Result<(), Self::Error>;
    /// Ibarrier.
    fn start_barrier(&mut self) -> Result<(), Self::Error>;
    /// Test(Ibarrier).
    fn test_barrier(&mut self) -> Result<bool, Self::Error>;
    /// Wait(Ibarrier).
    fn wait_barrier(&mut self) -> Result<(), Self::Error>;
    /// Unlocks and frees.
    fn release(&mut self) -> Result<(), Self::Error>;
}

/// Where in figure 4 a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its reads are going on.
    Rgets,
    /// Its reads are complete, and it has told so.
    Ibarrier,
    /// Everybody's are.
    Through,
    /// The windows are free.
    Complete,
}

#[derive(Debug)]
pub(super) struct WaitTargets<T> {
    role: Role,
    state: State,
    pub(super) transport: T,
}

impl<T: Transport> WaitTargets<T> {
    /// Begins where Init_RMA has ended: windows are there, reads are started.
    pub(super) fn begin(role: Role, mut transport: T) -> Result<Self, T::Error> {
        let state = if role == Role::SourceOnly {
            transport.start_barrier()?;
            State::Ibarrier
        } else {
            State::Rgets
        };
        Ok(Self {
            role,
            state,
            transport,
        })
    }

    /// Whether everybody has its data. Blocks on a rank that is only a target.
    pub(super) fn test(&mut self) -> Result<bool, T::Error> {
        if self.role == Role::TargetOnly {
            return self.wait().map(|()| true);
        }
        if self.state == State::Rgets {
            if !self.transport.test_reads()? {
                return Ok(false);
            }
            self.transport.start_barrier()?;
            self.state = State::Ibarrier;
        }
        if self.state == State::Ibarrier {
            if !self.transport.test_barrier()? {
                return Ok(false);
            }
            self.state = State::Through;
        }
        Ok(true)
    }

    /// Waits until everybody has its data.
    pub(super) fn wait(&mut self) -> Result<(), T::Error> {
        if self.state == State::Rgets {
            self.transport.wait_reads()?;
            self.transport.start_barrier()?;
            self.state = State::Ibarrier;
        }
        if self.state == State::Ibarrier {
            self.transport.wait_barrier()?;
            self.state = State::Through;
        }
        Ok(())
    }

    /// Waits until everybody has its data, and frees the windows. Collective.
    pub(super) fn finish(&mut self) -> Result<(), T::Error> {
        self.wait()?;
        if self.state == State::Through {
            self.transport.release()?;
            self.state = State::Complete;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says what it was asked, and answers so many tests with no.
    #[derive(Default)]
    struct Fake {
        asked: Vec<&'static str>,
        reads: usize,
        barrier: usize,
        fails_at: &'static str,
    }

    impl Fake {
        fn ask(&mut self, what: &'static str) -> Result<(), &'static str> {
            self.asked.push(what);
            if what == self.fails_at {
                Err(what)
            } else {
                Ok(())
            }
        }
    }

    fn countdown(count: &mut usize) -> bool {
        let is_over = *count == 0;
        *count = count.saturating_sub(1);
        is_over
    }

    impl Transport for Fake {
        type Error = &'static str;
        fn test_reads(&mut self) -> Result<bool, &'static str> {
            self.ask("Testall(Rgets)")?;
            Ok(countdown(&mut self.reads))
        }
        fn wait_reads(&mut self) -> Result<(), &'static str> {
            self.ask("Wait(Rgets)")
        }
        fn start_barrier(&mut self) -> Result<(), &'static str> {
            self.ask("Ibarrier")
        }
        fn test_barrier(&mut self) -> Result<bool, &'static str> {
            self.ask("Test(Ibarrier)")?;
            Ok(countdown(&mut self.barrier))
        }
        fn wait_barrier(&mut self) -> Result<(), &'static str> {
            self.ask("Wait(Ibarrier)")
        }
        fn release(&mut self) -> Result<(), &'static str> {
            self.ask("Unlock, Win_free")
        }
    }

    /// The flow of a role, with a test after each Compute.
    fn flow(role: Role, reads: usize, barrier: usize) -> Vec<&'static str> {
        let fake = Fake {
            reads,
            barrier,
            ..Fake::default()
        };
        let mut flow = WaitTargets::begin(role, fake).unwrap();
        while !flow.test().unwrap() {
            flow.transport.asked.push("Compute");
        }
        assert!(flow.test().unwrap(), "it stays complete");
        assert!(!flow.transport.asked.contains(&"Unlock, Win_free"));
        flow.finish().unwrap();
        flow.finish().unwrap();
        assert!(flow.test().unwrap());
        flow.transport.asked
    }

    #[test]
    fn a_target_waits() {
        assert_eq!(
            flow(Role::TargetOnly, 5, 5),
            [
                "Wait(Rgets)",
                "Ibarrier",
                "Wait(Ibarrier)",
                "Unlock, Win_free"
            ]
        );
    }

    #[test]
    fn a_source_tells_at_once_that_it_reads_nothing() {
        assert_eq!(
            flow(Role::SourceOnly, 5, 1),
            [
                "Ibarrier",
                "Test(Ibarrier)",
                "Compute",
                "Test(Ibarrier)",
                "Unlock, Win_free"
            ]
        );
    }

    #[test]
    fn one_that_is_both_computes_between_its_tests() {
        assert_eq!(
            flow(Role::Both, 2, 1),
            [
                "Testall(Rgets)",
                "Compute",
                "Testall(Rgets)",
                "Compute",
                "Testall(Rgets)",
                "Ibarrier",
                "Test(Ibarrier)",
                "Compute",
                "Test(Ibarrier)",
                "Unlock, Win_free"
            ]
        );
    }

    #[test]
    fn waiting_completes_from_every_state() {
        for (tests, rest) in [
            (
                0,
                vec![
                    "Wait(Rgets)",
                    "Ibarrier",
                    "Wait(Ibarrier)",
                    "Unlock, Win_free",
                ],
            ),
            (2, vec!["Wait(Ibarrier)", "Unlock, Win_free"]),
        ] {
            let fake = Fake {
                reads: 1,
                barrier: 9,
                ..Fake::default()
            };
            let mut flow = WaitTargets::begin(Role::Both, fake).unwrap();
            for _ in 0..tests {
                assert!(!flow.test().unwrap());
            }
            flow.transport.asked.clear();
            flow.finish().unwrap();
            assert_eq!(flow.transport.asked, rest);
        }
    }

    #[test]
    fn a_failure_is_told_and_nothing_is_released() {
        let fake = Fake {
            fails_at: "Test(Ibarrier)",
            ..Fake::default()
        };
        let mut flow = WaitTargets::begin(Role::Both, fake).unwrap();
        assert_eq!(flow.test(), Err("Test(Ibarrier)"));
        assert!(!flow.transport.asked.contains(&"Unlock, Win_free"));
    }
}
