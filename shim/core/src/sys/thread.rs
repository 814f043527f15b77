//! Who is calling, without thread-locals, and waiting that ends.

use super::raw;

/// The calling thread: unique among the threads that are alive, never 0. Not a thread id that anybody else would know.
pub fn id() -> usize {
    raw::thread_pointer()
}

/// A wait that becomes lazier and has an end.
#[derive(Debug)]
pub struct Patience {
    milliseconds: u64,
    /// 0 until the first pause that asks the clock.
    end_ns: u64,
    round: u32,
}

impl Patience {
    /// At most `milliseconds`, from about the first pause on.
    pub fn milliseconds(milliseconds: u64) -> Self {
        Self { milliseconds, end_ns: 0, round: 0 }
    }

    /// Waits a little: first a few spins, then the processor is given to others, then sleep of up to a millisecond.
    /// `false`: the time is up, and nothing was waited for.
    pub fn pause(&mut self) -> bool {
        self.round = self.round.saturating_add(1);
        if self.round <= 16 {
            core::hint::spin_loop();
            return true;
        }
        let now = raw::now_ns();
        if self.end_ns == 0 {
            self.end_ns = now.saturating_add(self.milliseconds.saturating_mul(1_000_000));
        }
        if now >= self.end_ns {
            return false;
        }
        if self.round <= 32 {
            raw::sched_yield();
        } else {
            raw::sleep_ns(20_000 << (self.round - 32).min(6));
        }
        true
    }
}
