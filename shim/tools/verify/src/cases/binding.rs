//! Whose function a program gets, by each way to an entry point.

use vrocm_audit::manifest::InterposedList;

use super::{Bench, Case, Needs, Outcome, Rows, Trouble};
use crate::probe::Way;

pub(super) const CASE: Case = Case {
    name: "binding",
    what: "by every way to an entry point a program gets the library's, and without the library the runtime's",
    needs: Needs::Cards(1),
    checks: &["linked", "dlsym", "hipGetProcAddress"],
    run,
};

fn run(bench: &Bench, rows: &mut Rows) -> Outcome {
    let list = InterposedList::own().map_err(|error| Trouble(error.to_string()))?;
    let name = bench.shim.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for way in Way::ALL {
        for preloaded in [true, false] {
            let probe = bench.probe()?.way(way);
            let mut session = if preloaded { probe.shim(&bench.ledger(), bench.quota) } else { probe }.start()?;
            session.ask("hipInit,0")?;
            let (mut ours, mut others) = (0, Vec::new());
            for row in list.rows.iter().filter(|row| row.name.starts_with("hip")) {
                let answer = session.ask(&format!("owner,{}", row.name))?;
                match answer.words.get("object") {
                    Some(object) if object.rsplit('/').next() == Some(&name) => ours += 1,
                    Some(_) => others.push(row.name.as_str()),
                    None => {}
                }
            }
            let check = format!("{}{}", way.word(), if preloaded { "" } else { ", control without the library" });
            if ours + others.len() == 0 {
                rows.skip(check, "this release has no such way");
            } else if !preloaded && bench.everywhere {
                rows.skip(check, "/etc/ld.so.preload has the library for every process of this container");
            } else if preloaded {
                let detail = if others.is_empty() {
                    format!("{ours} entry points are the library's")
                } else {
                    format!("not the library's: {}", others.join(" "))
                };
                rows.judge(others.is_empty(), check, detail);
            } else {
                rows.judge(ours == 0, check, format!("{} entry points are the runtime's, {ours} the library's", others.len()));
            }
        }
    }
    Ok(())
}
