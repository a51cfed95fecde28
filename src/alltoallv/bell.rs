//! A bell in shared memory, on which a rank sleeps where cores are fewer than ranks.
//!
//! Whoever changes something that a rank may wait for rings its bell afterwards. The rank announces that it sleeps, and then
//! looks once more: either it sees the change, or the one who made it sees that it sleeps.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

#[repr(C, align(128))]
pub(super) struct Bell {
    rung: AtomicU32,
    asleep: AtomicU32,
}

impl Bell {
    /// Wakes the one who sleeps on it.
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.rung.fetch_add(1, Ordering::Release);
            // SAFETY: the word is there during the call; the other arguments are numbers.
            unsafe { libc::syscall(libc::SYS_futex, self.rung.as_ptr(), libc::FUTEX_WAKE, 1) };
        }
    }

    /// Sleeps until it is rung, but not longer than `most`, unless it is over by now. Whether it is.
    pub(super) fn sleep<E>(
        &self,
        most: Duration,
        mut is_over: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let heard = self.rung.load(Ordering::Acquire);
        self.asleep.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let over = is_over();
        if let Ok(false) = over {
            let most = libc::timespec {
                tv_sec: most.as_secs().try_into().unwrap_or(1),
                tv_nsec: most.subsec_nanos().into(),
            };
            let word = self.rung.as_ptr();
            // Any end of it is a reason to look again.
            // SAFETY: word and time are there during the call, which only reads them.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word,
                    libc::FUTEX_WAIT,
                    heard,
                    &raw const most,
                )
            };
        }
        self.asleep.store(0, Ordering::Relaxed);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::AtomicU64;

    /// Two threads that wait for each other: without a ring that is heard, each round takes as long as the sleep.
    #[test]
    fn no_ring_is_lost() {
        const ROUNDS: u64 = 20_000;
        let bell = || Bell {
            rung: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
        };
        let (bells, counts) = ([bell(), bell()], [AtomicU64::new(0), AtomicU64::new(0)]);
        let slept = std::thread::scope(|scope| {
            let threads = [0, 1].map(|mine| {
                let (bells, counts) = (&bells, &counts);
                scope.spawn(move || {
                    let mut timed_out = 0;
                    for round in 1..=ROUNDS {
                        counts[1 - mine].store(round, Ordering::Release);
                        bells[1 - mine].ring();
                        let is_over =
                            || Ok::<_, Infallible>(counts[mine].load(Ordering::Acquire) >= round);
                        let begun = std::time::Instant::now();
                        while let Ok(false) = bells[mine].sleep(Duration::from_secs(20), is_over) {}
                        timed_out += u64::from(begun.elapsed() > Duration::from_secs(19));
                    }
                    timed_out
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(slept, [0, 0]);
    }
}
