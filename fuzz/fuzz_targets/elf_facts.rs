//! Any bytes as an ELF file, and as the machine code of a runtime: every reader may refuse them, none may panic, hang or take much memory.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    vrocm_tests::walk::everything(bytes);
    vrocm_tests::walk::machine_code(bytes);
});
