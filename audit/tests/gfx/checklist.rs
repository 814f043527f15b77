//! Lines of the checklist that no other file of these tests has: S3, S5, S10, S11, S14, S15.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::path::Path;

use vrocm_audit::elf::Elf;
use vrocm_audit::gfx::verdict::{Reason, Verdict};
use vrocm_audit::gfx::{self, Tier, audit, doubts};

use crate::stand_in::{ROCR, StandIn, TARGETS, array, ask, ids, scan};
use crate::support::file;

/// Larger than any runtime may be.
const TOO_LARGE: u64 = (512 << 20) + 1;

#[test]
fn s3_too_few_names_give_no_verdict() {
    let text = |text: &str| format!("__attribute__((used)) static const char names[]=\"{text}\";\n");
    for (source, why) in [
        (String::new(), "no name at all"),
        (text("gfx9 gfx10 gfx11 gfx12 gfx9- gfx10- gfx1 gfx90 gfx11/ gfx12. gfx6 gfx7"), "families only"),
        (text("gfx900 gfx906 gfx908 gfx90a gfx1030 gfx1100 gfx1101 gfx1102 gfx1200"), "nine names"),
    ] {
        let answer = StandIn::rocr(&source).ask("gfx1250");
        assert_eq!((answer.verdict, answer.reason), (Verdict::Unknown, Reason::TooFewNames), "{why}: {}", answer.message);
    }
    let ten = StandIn::rocr(&text("gfx900 gfx906 gfx908 gfx90a gfx1030 gfx1100 gfx1101 gfx1102 gfx1200 gfx1201")).ask("gfx1250");
    assert_eq!((ten.verdict, ten.reason), (Verdict::Unsupported, Reason::NameAbsent), "ten names say something");
    // Empty files and bare magics are errors: `identity::what_is_no_library_is_an_error`.
    for bytes in [&b""[..], b"\x7fELF"] {
        assert!(Elf::from_bytes("x", bytes.to_vec()).is_err());
    }
}

#[test]
fn s5_identifiers_with_a_suffix_do_not_clear_the_floor() {
    let many = |suffix: &str| {
        let names = TARGETS[..15].iter().map(|target| format!("{target}{suffix} ")).collect::<String>();
        StandIn::rocr(&format!("__attribute__((used)) static const char names[]=\"{names}\";\n")).ask("gfx1250")
    };
    assert_eq!(many("_helper").reason, Reason::TooFewNames);
    assert_eq!(many("").reason, Reason::NameAbsent, "the same as words of their own");
}

/// Makes a file larger without writing: a hole at its end.
fn stretch(path: &Path) {
    OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(TOO_LARGE)).expect("a sparse file");
}

#[test]
fn s10_the_bytes_that_are_judged_are_those_that_were_opened() {
    let with = StandIn::rocr(&array("table", &ids(&TARGETS)));
    let without = StandIn::rocr(&array("table", &ids(&TARGETS[..30])));
    let image = Elf::open(&with.path).expect("opened");
    let mut library = gfx::scan(&image).expect("scanned");
    // Another file under the name: what was opened stays what it was, for the closer look as well.
    fs::rename(&without.path, &with.path).expect("replaced");
    assert_eq!(library.answer(&image, "gfx1201".parse().expect("a target")).expect("read").verdict, Verdict::Supported);
    assert_eq!(library.answer(&image, "gfx1250".parse().expect("a target")).expect("read").verdict, Verdict::Unsupported);
    assert_eq!(ask(&with.path, "gfx1201").verdict, Verdict::Unsupported, "opened again, it is the other one");
}

/// Public functions of `gfx` that read a file: each of them is asked below.
const READERS: [&str; 6] = ["answer", "audit", "code_objects", "scan", "scan_for", "versions"];

#[test]
fn s11_no_public_function_reads_a_file_that_is_too_large() {
    let library = StandIn::rocr(&array("table", &ids(&TARGETS)));
    let small = Elf::open(&library.path).expect("opened");
    let mut scanned = gfx::scan(&small).expect("scanned");
    let name = || "gfx1250".parse().expect("a target");
    let copy = library.path.with_file_name("large.so");
    fs::copy(&library.path, &copy).expect("copied");
    stretch(&copy);
    let large = Elf::open(&copy).expect("its header is in order");
    let refused = |what: &str, error: Option<String>| {
        assert!(error.is_some_and(|error| error.contains("more than any runtime")), "{what} reads it");
    };
    refused("scan", gfx::scan(&large).err().map(|error| error.to_string()));
    refused("scan_for", gfx::scan_for(&large, name()).err().map(|error| error.to_string()));
    refused("answer", scanned.answer(&large, name()).err().map(|error| error.to_string()));
    refused("code_objects", scanned.code_objects(&large).err().map(|error| error.to_string()));
    refused("audit", audit::audit(&large, Some(name()), &mut Vec::new()).err().map(|error| error.to_string()));
    let registry = scanned.registry.as_ref().expect("a registry");
    refused("versions", doubts::versions(&large, registry).err().map(|error| error.to_string()));
    assert!(scanned.answer(&small, name()).is_ok(), "and of usual size it is read");
    let mut readers = BTreeSet::new();
    for entry in fs::read_dir("src/gfx").expect("sources").flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "rs")) {
        let source = syn::parse_file(&fs::read_to_string(entry.path()).expect("readable")).expect("Rust");
        source.items.iter().for_each(|item| public_readers(item, &mut readers));
    }
    assert_eq!(readers.iter().map(String::as_str).collect::<Vec<_>>(), READERS, "a new one has to be asked here");
}

fn public_readers(item: &syn::Item, found: &mut BTreeSet<String>) {
    let mut see = |public: &syn::Visibility, signature: &syn::Signature| {
        let elf = |argument: &syn::FnArg| {
            let syn::FnArg::Typed(argument) = argument else { return false };
            let syn::Type::Reference(reference) = &*argument.ty else { return false };
            matches!(&*reference.elem, syn::Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Elf"))
        };
        if matches!(public, syn::Visibility::Public(_)) && signature.inputs.iter().any(elf) {
            found.insert(signature.ident.to_string());
        }
    };
    match item {
        syn::Item::Fn(function) => see(&function.vis, &function.sig),
        syn::Item::Impl(block) => block.items.iter().for_each(|item| {
            if let syn::ImplItem::Fn(function) = item {
                see(&function.vis, &function.sig);
            }
        }),
        _ => {}
    }
}

#[test]
fn s14_hip_and_comgr_have_no_say_as_rocr() {
    let Some(hip) = file("libamdhip64-7_7.2.4-1~exp2_amd64", "libamdhip64.so.7") else { return };
    // Under ROCr's file name it is still what its soname says; in `preflight` that makes the answer unknown (`s14` there).
    assert_eq!(scan(&hip).identity, gfx::identity::Identity::Hip);
    let renamed = StandIn::compile("libamd_comgr.so.2", &format!("{ROCR}{}", array("table", &ids(&TARGETS))));
    let answer = renamed.ask("gfx1250");
    assert_eq!((answer.verdict, answer.reason), (Verdict::Unknown, Reason::NotRocr), "39 names and ROCr's exports do not make it one");
}

#[test]
fn s15_a_generic_is_no_support_for_a_target() {
    let mut all = ids(&TARGETS);
    all.extend(["gfx12-generic", "gfx11-generic"].map(String::from));
    let library = StandIn::rocr(&array("table", &all));
    assert_eq!((library.scan().tier, library.scan().generics.len()), (Tier::Registry, 2));
    assert_eq!(library.ask("gfx1250").verdict, Verdict::Unsupported, "its family's generic is registered, it is not");
    assert_eq!(library.ask("gfx1201").verdict, Verdict::Supported);
}
