//! The shim under programs that call HSA directly, as `OpenCL` and UCX do: nothing of HIP is above.

use vrocm_tests::driver::{Answer, Driver, End, Session, Status};
use vrocm_tests::mock::Mock;
use vrocm_tests::paths::fixture;
use vrocm_tests::shim::{held, recorded};

const MIB: u64 = 1 << 20;
const OUT_OF_RESOURCES: Status = Status::Code(0x1008);
const INVALID_ALLOCATION: Status = Status::Code(0x1003);

fn ask(session: &mut Session, command: &str) -> Answer {
    session.ask(command).unwrap_or_else(|| panic!("{command}: the process is gone"))
}

fn must(session: &mut Session, command: &str) -> Answer {
    let answer = ask(session, command);
    assert!(answer.is_ok(), "{command}: {answer:?}");
    answer
}

/// Gives the commands, all of which succeed, and says what is held after each; the record agrees.
fn held_after(session: &mut Session, mock: &Mock, commands: &[&str]) -> Vec<u64> {
    commands
        .iter()
        .map(|command| {
            must(session, command);
            let now = held(mock).unwrap_or(0);
            assert_eq!(now, recorded(mock), "{command}: ledger and record");
            now / MIB
        })
        .collect()
}

fn ends_well(session: Session) {
    let outcome = session.close();
    assert_eq!(outcome.end, End::Exit(0), "{outcome:?}");
}

#[test]
fn pools_and_regions_are_one_memory() {
    let mock = Mock::new();
    let mut session = Driver::hsa(&mock).shim(&mock, 64).start();
    assert_eq!(ask(&mut session, "pool_allocate,512M").status, OUT_OF_RESOURCES);
    assert_eq!(ask(&mut session, "memory_allocate,65M").status, OUT_OF_RESOURCES);
    let commands = ["pool_allocate,40M", "memory_allocate,24M", "pool_free", "memory_free"];
    assert_eq!(held_after(&mut session, &mock, &commands), [40, 64, 40, 0]);
    // Above the size of a block whole blocks, below it pages.
    assert_eq!(held_after(&mut session, &mock, &["pool_allocate,33M", "pool_allocate,30M"]), [34, 64]);
    assert_eq!(ask(&mut session, "pool_allocate,1").status, OUT_OF_RESOURCES);
    must(&mut session, "pool_free");
    must(&mut session, "pool_allocate,1");
    assert_eq!(held(&mock), Some(34 * MIB + 4096));
    ask(&mut session, "pool_free,null");
    assert_eq!(held(&mock), Some(34 * MIB + 4096), "nothing is freed by freeing nothing");
    ends_well(session);
    assert!(mock.card(0).highest_block <= 64 * MIB);
}

#[test]
fn a_handle_is_charged_until_nothing_refers_to_it_and_nothing_maps_it() {
    let mock = Mock::new();
    let mut session = Driver::hsa(&mock).shim(&mock, 64).start();
    assert_eq!(ask(&mut session, "vmem_create,66M").status, OUT_OF_RESOURCES);
    let released_first = ["vmem_reserve,32M", "vmem_create,32M", "vmem_map", "vmem_release", "vmem_unmap", "vmem_unreserve"];
    assert_eq!(held_after(&mut session, &mock, &released_first), [0, 32, 32, 32, 0, 0]);
    let retained = ["vmem_reserve,32M", "vmem_create,32M", "vmem_map", "vmem_retain", "vmem_release", "vmem_unmap", "vmem_release", "vmem_unreserve"];
    assert_eq!(held_after(&mut session, &mock, &retained), [0, 32, 32, 32, 32, 32, 0, 0]);
    let imported = ["vmem_create,32M", "vmem_export", "vmem_import", "vmem_release", "vmem_release"];
    assert_eq!(held_after(&mut session, &mock, &imported), [32, 32, 32, 32, 0]);
    assert_eq!(ask(&mut session, "vmem_release,0").status, INVALID_ALLOCATION);
    ends_well(session);
}

#[test]
fn what_the_driver_refuses_is_not_charged_and_what_it_keeps_stays_charged() {
    let mock = Mock::new().knob("FAIL", "pool_allocate:1,vmem_handle_create:1,load_agent_code_object:1");
    let mut session = Driver::hsa(&mock).shim(&mock, 128).start();
    let module = format!("load,{}", fixture("module.hsaco").display());
    for command in ["pool_allocate,16M", "vmem_create,16M", module.as_str()] {
        assert_eq!(ask(&mut session, command).status, OUT_OF_RESOURCES, "{command}");
        assert_eq!(held(&mock), Some(0), "{command}");
    }
    assert_eq!(held_after(&mut session, &mock, &["vmem_reserve,16M", "vmem_create,16M", "vmem_map"]), [0, 16, 16]);
    // Something is mapped there already.
    assert!(!ask(&mut session, "vmem_map").is_ok());
    assert_eq!(held_after(&mut session, &mock, &["vmem_release", "vmem_unmap"]), [16, 0]);
    assert!(!ask(&mut session, "vmem_unmap").is_ok());
    assert_eq!(held(&mock), Some(0));
    ends_well(session);
}

#[test]
fn images_are_charged_until_their_executable_goes() {
    let mock = Mock::new();
    let module = format!("load,{}", fixture("module.hsaco").display());
    let mut session = Driver::hsa(&mock).shim(&mock, 100).start();
    let loaded = held_after(&mut session, &mock, &[&module]);
    assert!(loaded[0] >= 64, "{loaded:?}");
    assert_eq!(ask(&mut session, "pool_allocate,40M").status, OUT_OF_RESOURCES);
    assert_eq!(held_after(&mut session, &mock, &["unload", &module, "unload", "pool_allocate,64M"]), [0, loaded[0], 0, 64]);
    assert_eq!(ask(&mut session, &module).status, OUT_OF_RESOURCES);
    ends_well(session);
    assert!(mock.card(0).highest_asked <= 100 * MIB);
}

/// A file of code with these segments: type, address, size in memory. Its table of them may be cut off.
fn code_file(mock: &Mock, name: &str, segments: &[(u32, u64, u64)], cut: usize) -> String {
    let mut bytes = vec![0_u8; 64 + 56 * segments.len()];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
    bytes[54..58].copy_from_slice(&[56, 0, u8::try_from(segments.len()).unwrap(), 0]);
    for (segment, &(kind, address, size)) in bytes[64..].chunks_mut(56).zip(segments) {
        segment[..4].copy_from_slice(&kind.to_le_bytes());
        segment[16..24].copy_from_slice(&address.to_le_bytes());
        segment[40..48].copy_from_slice(&size.to_le_bytes());
    }
    bytes.truncate(bytes.len() - cut);
    let path = mock.folder().join(name);
    std::fs::write(&path, bytes).unwrap();
    format!("load,{}", path.display())
}

/// The runtime takes up to the end of the last segment; of the first version of code objects each piece for itself. What cannot be read has no figure: it is refused.
#[test]
fn every_kind_of_image_is_charged_and_an_unreadable_one_refused() {
    const LOAD: u32 = 1;
    const OLD: u32 = 0x6000_0000;
    let mock = Mock::new();
    let high = code_file(&mock, "high", &[(LOAD, 32 * MIB, 4096), (LOAD, 40 * MIB, 8 * MIB)], 0);
    let old = code_file(&mock, "old", &[(OLD, 0, 64 * MIB), (OLD + 1, 0, 40 * MIB), (OLD + 2, 0, 0), (OLD + 3, 0, 8 * MIB)], 0);
    let too_much = code_file(&mock, "too-much", &[(OLD + 1, 0, 60 * MIB), (OLD + 3, 0, 60 * MIB)], 0);
    let cut = code_file(&mock, "cut", &[(LOAD, 0, MIB), (LOAD, MIB, 64 * MIB)], 8);
    let nothing = code_file(&mock, "nothing", &[(6, 0, MIB)], 0);
    let mut session = Driver::hsa(&mock).shim(&mock, 100).start();
    assert_eq!(held_after(&mut session, &mock, &[&high, "unload", &old, "unload"]), [48, 0, 48, 0]);
    for refused in [&too_much, &cut] {
        assert_eq!(ask(&mut session, refused).status, OUT_OF_RESOURCES, "{refused}");
    }
    // Nothing to load: the runtime's own answer.
    let answer = ask(&mut session, &nothing);
    assert!(!answer.is_ok() && answer.status != OUT_OF_RESOURCES, "{answer:?}");
    assert_eq!(held(&mock), Some(0));
    ends_well(session);
    assert!(mock.card(0).highest_asked <= 100 * MIB);
}

/// A load that fails for a symbol has taken its memory, which only the executable's end gives back.
#[test]
fn a_load_that_fails_late_is_charged_until_its_executable_goes() {
    let mock = Mock::new().knob("FAIL", "load_symbols:1");
    let module = format!("load,{}", fixture("module.hsaco").display());
    let mut session = Driver::hsa(&mock).shim(&mock, 100).start();
    assert_eq!(ask(&mut session, &module).status, Status::Code(0x1015));
    let kept = held(&mock).unwrap_or(0);
    assert!(kept >= 64 * MIB, "{kept}");
    assert_eq!(kept, recorded(&mock));
    assert_eq!(ask(&mut session, "pool_allocate,64M").status, OUT_OF_RESOURCES);
    assert_eq!(held_after(&mut session, &mock, &["unload", "pool_allocate,64M"]), [0, 64]);
    ends_well(session);
    assert!(mock.card(0).highest_asked <= 100 * MIB);
}

/// By each way to open a code object, and by the one of HSA 1.0 that needs none opened.
#[test]
fn images_from_files_and_by_their_address_are_charged_as_well() {
    for load in ["load_file", "load_old", "load_part", "load_part_old"] {
        let mock = Mock::new();
        let module = format!("{load},{}", fixture("module.hsaco").display());
        let mut session = Driver::hsa(&mock).shim(&mock, 100).start();
        let loaded = held_after(&mut session, &mock, &[&module, "unload"]);
        assert!(loaded[0] >= 64 && loaded[1] == 0, "{load}: {loaded:?}");
        must(&mut session, "pool_allocate,64M");
        assert_eq!(ask(&mut session, &module).status, OUT_OF_RESOURCES, "{load}");
        ends_well(session);
        assert!(mock.card(0).highest_asked <= 100 * MIB, "{load}");
    }
}

/// A reader is charged by what it reads, also where the one before it lay at the same address.
#[test]
fn a_reader_in_the_place_of_another_is_charged_with_its_own() {
    let mock = Mock::new();
    let (large, small) = (fixture("module.hsaco"), mock.folder().join("small.hsaco"));
    let mut bytes = std::fs::read(&large).expect("a fixture");
    // The same file, whose segments take no memory.
    let (table, count) = (u64::from_le_bytes(bytes[32..40].try_into().expect("8 bytes")) as usize, usize::from(bytes[56]));
    for segment in 0..count {
        let at = table + segment * 56;
        if bytes[at..at + 4] == [1, 0, 0, 0] {
            let file_size: [u8; 8] = bytes[at + 32..at + 40].try_into().expect("8 bytes");
            bytes[at + 40..at + 48].copy_from_slice(&file_size);
        }
    }
    std::fs::write(&small, bytes).expect("it can be written");
    let mut session = Driver::hsa(&mock).shim(&mock, 100).start();
    let (open_large, open_small) = (format!("reader,{}", large.display()), format!("reader,{}", small.display()));
    let first = held_after(&mut session, &mock, &[&open_large, "load_reader", "unload"]);
    assert!(first[1] >= 64, "{first:?}");
    must(&mut session, "reader_gone");
    // The C library gives the freed place again.
    let second = held_after(&mut session, &mock, &[&open_small, "load_reader"]);
    assert!(second[1] < 64, "{second:?}");
    ends_well(session);
}

/// Readers come and go at other addresses each time, and the next one is still charged: notes find room.
#[test]
fn two_hundred_thousand_readers_do_not_keep_the_next_from_being_charged() {
    let mock = Mock::new();
    let module = format!("load,{}", fixture("module.hsaco").display());
    let mut session = Driver::hsa(&mock).shim(&mock, 100).start();
    must(&mut session, &format!("reader,{}", fixture("module.hsaco").display()));
    must(&mut session, "readers,200000");
    let loaded = held_after(&mut session, &mock, &[&module]);
    assert!(loaded[0] >= 64, "{loaded:?}");
    ends_well(session);
}

/// With the last user HSA drops the images of all executables; what was allocated stays with the process.
#[test]
fn the_last_shut_down_gives_images_back() {
    let mock = Mock::new();
    let module = format!("load,{}", fixture("module.hsaco").display());
    let mut session = Driver::hsa(&mock).shim(&mock, 100).start();
    let loaded = held_after(&mut session, &mock, &["pool_allocate,16M", &module]);
    assert!(loaded[1] >= 80, "{loaded:?}");
    must(&mut session, "shut_down");
    assert_eq!(held(&mock), Some(16 * MIB));
    ends_well(session);
}

/// Scratch that a queue is asked for, the ring of a soft queue, the buffers of a sampling session: what the caller chooses. 60 units in the mock.
#[test]
fn queues_and_sampling_are_charged_with_what_the_caller_chooses() {
    const LANES: u64 = 64 * 32 * 60;
    let cases = [
        ("queue,16", "queue_gone", 16 * LANES),
        ("queue,17", "queue_gone", 32 * LANES),
        ("queue,0", "queue_gone", 0),
        ("soft_queue,16384", "queue_gone", MIB + 4096),
        ("sampling,4M", "sampling_gone", 4 * MIB),
        ("sampling_id,4M", "sampling_gone", 4 * MIB),
    ];
    let mock = Mock::new();
    let mut session = Driver::hsa(&mock).shim(&mock, 64).start();
    for (take, give, bytes) in cases {
        must(&mut session, take);
        assert_eq!(held(&mock).unwrap_or(0), bytes, "{take}");
        must(&mut session, give);
        assert_eq!(held(&mock).unwrap_or(0), 0, "{take} {give}");
    }
    for without_room in ["queue,1024", "soft_queue,2097152", "sampling,128M", "sampling_id,128M"] {
        assert_eq!(ask(&mut session, without_room).status, OUT_OF_RESOURCES, "{without_room}");
        assert_eq!(held(&mock).unwrap_or(0), 0, "{without_room}");
    }
    ends_well(session);
}

/// Managed memory of a program on HSA: from access to no access, or until its address is given back.
#[test]
fn managed_memory_is_charged_while_a_card_has_access() {
    let mock = Mock::new();
    let mut session = Driver::hsa(&mock).shim(&mock, 64).start();
    assert_eq!(ask(&mut session, "svm,512M").status, OUT_OF_RESOURCES);
    for give in ["svm_none", "vmem_unreserve"] {
        must(&mut session, "svm,32M");
        assert_eq!(held(&mock), Some(32 * MIB), "{give}");
        must(&mut session, give);
        assert_eq!(held(&mock), Some(0), "{give}");
    }
    ends_well(session);
}

#[test]
fn capacity_is_the_quota_and_never_more_than_the_card() {
    for (vram, quota) in [(16384, 64), (32, 64)] {
        let mock = Mock::new().vram_mib(vram);
        let mut session = Driver::hsa(&mock).shim(&mock, quota).start();
        let total = vram.min(quota) * MIB;
        assert_eq!(must(&mut session, "pool_size").number("size"), total);
        assert_eq!(must(&mut session, "region_size").number("size"), total);
        assert_eq!(must(&mut session, "available").number("size"), total);
        must(&mut session, "pool_allocate,16M");
        assert_eq!(must(&mut session, "pool_size").number("size"), total);
        assert_eq!(must(&mut session, "available").number("size"), total - 16 * MIB);
        ends_well(session);
    }
}

#[test]
fn each_card_has_its_own_quota_whatever_is_visible() {
    let mock = Mock::new().cards(3);
    let by_address = |mock: &'static Mock, visible: &str| {
        Driver::hsa(mock)
            .shim(mock, 16)
            .env("VROCM_DEVICE_MEMORY_LIMIT_0000_13_00_0", "64")
            .env("VROCM_DEVICE_MEMORY_LIMIT_GPU_a0de000000000002", "128")
            .env("ROCR_VISIBLE_DEVICES", visible)
            .start()
    };
    let mock: &'static Mock = Box::leak(Box::new(mock));
    let sizes = |visible: &str, count: usize| -> Vec<u64> {
        let mut session = by_address(mock, visible);
        let sizes = (0..count)
            .map(|card| {
                must(&mut session, &format!("card,{card}"));
                must(&mut session, "pool_size").number("size") / MIB
            })
            .collect();
        ends_well(session);
        sizes
    };
    assert_eq!(sizes("0,1,2", 3), [16, 64, 128]);
    assert_eq!(sizes("2,1", 2), [128, 64]);
    assert_eq!(sizes("GPU-a0de000000000001,GPU-a0de000000000000", 2), [64, 16]);
    // Two processes, another order: one card.
    let mut first = by_address(mock, "1");
    let mut second = by_address(mock, "2,1");
    must(&mut first, "pool_allocate,40M");
    must(&mut second, "card,1");
    assert_eq!(ask(&mut second, "pool_allocate,40M").status, OUT_OF_RESOURCES);
    must(&mut second, "pool_allocate,24M");
    must(&mut second, "card,0");
    must(&mut second, "pool_allocate,128M");
}

/// A random walk with the record as the truth, the driver failing now and then.
#[test]
fn a_walk_at_random_keeps_ledger_and_record_together() {
    for seed in 1..=4_u64 {
        let mock = Mock::new().limit_mib(96);
        let mut session = Driver::hsa(&mock).shim(&mock, 128).start();
        let mut state = seed;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        must(&mut session, "vmem_reserve,8M");
        for step in 0..300 {
            let command = match next(12) {
                0 | 1 => format!("pool_allocate,{}", next(24 << 20)),
                2 => format!("pool_allocate,{}", next(8192)),
                3 => format!("memory_allocate,{}", next(12 << 20)),
                4 | 5 => "pool_free".to_owned(),
                6 => "vmem_create,8M".to_owned(),
                7 => "vmem_map".to_owned(),
                8 => "vmem_unmap".to_owned(),
                9 => "vmem_retain".to_owned(),
                10 => "vmem_release".to_owned(),
                _ => if next(2) == 0 { "vmem_export" } else { "vmem_import" }.to_owned(),
            };
            ask(&mut session, &command);
            let (ledger, record) = (held(&mock).unwrap_or(0), recorded(&mock));
            assert_eq!(ledger, record, "seed {seed}, step {step}: {command}");
            assert!(ledger <= 128 * MIB, "seed {seed}, step {step}: {command}");
        }
        ends_well(session);
        assert_eq!(held(&mock), Some(0), "seed {seed}: a process that ended holds nothing");
    }
}
