//! Rule `init-functions`.

use super::{Outcome, Rule};
use crate::elf::constants as elf;
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "init-functions",
        severity: Severity::Note,
        what: "How many functions the library runs in every process before main; DT_PREINIT_ARRAY, which only a program may have, is denied.",
        why: "Every process of the container runs them, those that never touch a GPU included. A preload's DT_PREINIT_ARRAY is passed over: what it was to set up is not set up.",
        fix: "Keep constructors short, and set up on the first call; use DT_INIT_ARRAY.",
        source: "gABI, initialization and termination functions; glibc elf/dl-init.c",
    },
    run: |facts, _, found| {
        let dynamic = &facts.image.dynamic;
        if dynamic.value(elf::DT_PREINIT_ARRAYSZ).is_some_and(|size| size > 0) {
            let message = "DT_PREINIT_ARRAY in a library: the loader passes over it, and what it was to set up is not set up";
            found.push(facts.found(&RULE.check, Outcome::LosesSilently, message).severity(Severity::Deny));
        }
        let listed = dynamic.value(elf::DT_INIT_ARRAYSZ).unwrap_or(0) / facts.image.header.word_size();
        let count = listed + u64::from(dynamic.value(elf::DT_INIT).is_some_and(|address| address != 0));
        if count > 0 {
            let message = format!("{count} function{} run{} in every process before main", plural(count), if count == 1 { "s" } else { "" });
            found.push(facts.found(&RULE.check, Outcome::ImposedOnAll, message).evidence("count", count));
        }
    },
};

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}
