//! Work on many things by all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Hands the items to as many threads as there are processors; each takes the next one that nobody has, into an account of its own. The accounts come back
/// in no order. `taken` counts the items as they are taken. A panic in a thread is a panic here.
pub fn fold<T: Sync, A: Send>(items: &[T], taken: &AtomicUsize, start: impl Fn() -> A + Sync, step: impl Fn(&mut A, usize, &T) + Sync) -> Vec<A> {
    let work = || {
        let mut account = start();
        loop {
            let at = taken.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return account };
            step(&mut account, at, item);
        }
    };
    let others = thread::available_parallelism().map_or(1, usize::from).min(items.len()).saturating_sub(1);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
        let mut accounts = vec![work()];
        accounts.extend(threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
        accounts
    })
}
