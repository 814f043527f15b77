//! What a supervisor does before it starts a job: one question for all ranks, one line where the GPU will be missing, and the job starts either way.
//!
//!     cargo run -p vrocm-audit --example supervisor -- gfx1250 /opt/rocm/bin/rocminfo

use vrocm_audit::gfx::preflight::ask::{Memory, Wanted};
use vrocm_audit::loader::Request;

const RANKS: usize = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((target, command)) = words.split_first().filter(|(_, command)| !command.is_empty()) else {
        return Err("give a target and a command".into());
    };
    let wanted = [Wanted::named(target.parse()?)];
    let mut memory = Memory::default();
    let mut said: Option<String> = None;
    for rank in 0..RANKS {
        // What the supervisor sets on top of its own environment. Nothing in it is read by the loader or by a runtime, so that it is one question.
        let delta = [("RANK".to_string(), rank.to_string())];
        // Blocking, bounded, and nothing is run: in an asynchronous program this belongs on a thread of its own.
        let answer = memory.ask(&Request::workload(command, &delta), &wanted)?;
        println!("rank {rank}: {}: {}", answer.verdict.word(), answer.reason());
        // Whether to speak is decided by the answer alone; equal lines are said once.
        if answer.notice.is_some() && answer.notice != said {
            eprintln!("supervisor: {}", answer.notice.as_deref().unwrap_or_default());
            said.clone_from(&answer.notice);
        }
    }
    assert_eq!(memory.asked(), 1, "the ranks ask the same");
    Ok(())
}
