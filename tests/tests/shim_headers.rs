//! Each interposed signature and each layout, as the C++ compiler reads the headers of all four `libamdhip64-dev`.
//!
//! A wrapper with another size of argument than the runtime's function works until the upper half of a register is not zero. So every row is compared: how
//! many arguments, and of each whether it is a pointer, a number or a structure, its size, and what it points to.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use vrocm_audit::manifest::Family;
use vrocm_core::interpose::hip::abi;
use vrocm_core::interpose::hip::abi::{AllocNodeParams, Array3dDesc, ArrayDesc, ChannelDesc, Extent, PitchedPtr};
use vrocm_tests::corpus;
use vrocm_tests::paths::rows;

use core::ffi::{c_char, c_void};

/// A type as far as the calling convention and the callee care.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// `p`, `i`, `s`, or `v` for nothing.
    kind: char,
    size: usize,
    /// Size of what a pointer points to; 0 where ours is opaque.
    pointee: usize,
}

trait Shaped {
    const SHAPE: Shape;
}

trait Pointee {
    const SIZE: usize;
}

macro_rules! pointees {
    ($($type:ty: $size:expr),*) => { $(impl Pointee for $type { const SIZE: usize = $size; })* };
}

macro_rules! shapes {
    ($($type:ty: $kind:literal),*) => { $(impl Shaped for $type {
        const SHAPE: Shape = Shape { kind: $kind, size: size_of::<$type>(), pointee: 0 };
    })* };
}

pointees!(c_void: 0, c_char: 1, i32: 4, u32: 4, usize: 8, u64: 8, PitchedPtr: 32, ChannelDesc: 20, ArrayDesc: 24, Array3dDesc: 40, AllocNodeParams: 120);
shapes!(i32: 'i', u32: 'i', usize: 'i', u64: 'i', Extent: 's', (): 'v');

impl<T: Pointee> Shaped for *mut T {
    const SHAPE: Shape = Shape { kind: 'p', size: 8, pointee: T::SIZE };
}

impl<T: Pointee> Shaped for *const T {
    const SHAPE: Shape = Shape { kind: 'p', size: 8, pointee: T::SIZE };
}

impl<T> Pointee for *mut T {
    const SIZE: usize = 8;
}

/// A row of the shim's table.
struct Row {
    name: &'static str,
    result: Shape,
    arguments: Vec<Shape>,
}

/// The rows of HIP, by their types as the table gives them.
macro_rules! hip_rows {
    (@row Hip $name:ident ($($type:ty),*) $result:ty) => {
        Some(Row { name: stringify!($name), result: <$result as Shaped>::SHAPE, arguments: vec![$(<$type as Shaped>::SHAPE),*] })
    };
    (@row $family:ident $name:ident ($($type:ty),*) $result:ty) => { None };
    ($($family:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty: $action:ident = $body:path;)*) => {
        [$(hip_rows!(@row $family $name ($($type),*) $result)),*]
    };
}

fn table() -> Vec<Row> {
    vrocm_core::rows!(hip_rows).into_iter().flatten().collect()
}

/// Reads shapes out of a function's type. An incomplete type has no size: it is opaque on their side.
const READER: &str = r"
#include <stddef.h>
#include <type_traits>
template <class T, class = void> struct size_or_0 { static constexpr size_t value = 0; };
template <class T> struct size_or_0<T, decltype((void)sizeof(T))> { static constexpr size_t value = std::is_void<T>::value || std::is_function<T>::value ? 0 : sizeof(T); };
struct shape { char kind; size_t size, pointee; };
template <class T> constexpr shape of() {
    using pointee = typename std::remove_cv<typename std::remove_pointer<T>::type>::type;
    return std::is_void<T>::value ? shape{'v', 0, 0}
         : std::is_pointer<T>::value ? shape{'p', sizeof(T *), size_or_0<pointee>::value}
         : std::is_class<T>::value ? shape{'s', size_or_0<T>::value, 0}
         : shape{'i', size_or_0<T>::value, 0};
}
constexpr bool fits(shape theirs, shape ours) {
    return theirs.kind == ours.kind && theirs.size == ours.size && (!ours.pointee || !theirs.pointee || theirs.pointee == ours.pointee);
}
template <class F> struct check;
template <class R, class... A> struct check<R(A...)> {
    template <size_t N> static constexpr bool like(shape result, const shape (&ours)[N]) {
        const shape theirs[] = {shape{'v', 0, 0}, of<A>()...};
        if (N != sizeof...(A) + 1 || !fits(of<R>(), result)) return false;
        for (size_t i = 1; i < N; i++)
            if (!fits(theirs[i], ours[i])) return false;
        return true;
    }
};
#include <hip/hip_runtime_api.h>
";

/// Names that the headers also give to templates of C++: which of them is the runtime's.
const OVERLOADED: [(&str, &str); 2] = [
    ("hipMallocAsync", "hipError_t (*)(void **, size_t, hipStream_t)"),
    ("hipMallocFromPoolAsync", "hipError_t (*)(void **, size_t, hipMemPool_t, hipStream_t)"),
];

const PACKAGES: [(&str, &str); 4] =
    [("libamdhip64-dev_5.2.3", "5.2.3"), ("libamdhip64-dev_5.7.1", "5.7.1"), ("libamdhip64-dev_6.4.3", "6.4.3"), ("libamdhip64-dev_7.2.4", "7.2.4")];

fn compiler(folder: &Path, arguments: &[&str], source: &str) -> (bool, String) {
    let program = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut child = Command::new(&program)
        .args(["-x", "c++", "-std=gnu++17", "-w", "-D__HIP_PLATFORM_AMD__", "-D__HIP_PLATFORM_HCC__", "-D__HIP_DISABLE_CPP_FUNCTIONS__", "-I"])
        .arg(folder.join("usr/include"))
        .args(arguments)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; this test needs a C++ compiler: set CXX, or install g++"));
    child.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("the compiler reads");
    let output = child.wait_with_output().expect("it ends");
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The headers that the corpus has; at least one.
fn headers() -> Vec<(std::path::PathBuf, &'static str)> {
    let mut found = Vec::new();
    for (package, version) in PACKAGES {
        match corpus::package(package) {
            Some(folder) => found.push((folder, version)),
            None => eprintln!("not tested: {}", corpus::missing("HIP's headers", &[package])),
        }
    }
    assert!(!found.is_empty(), "{}", corpus::missing("HIP's headers", &[PACKAGES[0].0]));
    found
}

fn declares(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        let after = text[at + name.len()..].trim_start();
        !(before.is_alphanumeric() || before == '_') && after.starts_with('(')
    })
}

fn written(shape: Shape) -> String {
    format!("shape{{'{}', {}, {}}}", shape.kind, shape.size, shape.pointee)
}

/// Rows that fit the headers in `folder`; `changed` may make them wrong first.
fn differing(folder: &Path, version: &str, changed: impl Fn(&mut Row)) -> Vec<&'static str> {
    let (ok, text) = compiler(folder, &["-E", "-P"], "#include <hip/hip_runtime_api.h>\n");
    assert!(ok, "{version}: {text}");
    let families = Family::embedded().expect("the embedded manifests are good");
    let hip = families.iter().find(|family| family.name() == "hip").expect("HIP is a family");
    let build = hip.builds.iter().find(|build| build.release.to_string() == version).expect("its export list is embedded");
    let undeclared: Vec<&str> =
        rows(include_str!("../data/undeclared.tsv")).filter(|row| row[1].split(' ').any(|release| release == version)).map(|row| row[0]).collect();
    let mut source = READER.to_owned();
    let mut compared = Vec::new();
    for mut row in table() {
        let declared = declares(&text, row.name);
        assert!(!(declared && undeclared.contains(&row.name)), "{}: {version} declares it: strike it from data/undeclared.tsv", row.name);
        if !declared {
            assert!(
                !build.exports().any(|export| export.name == row.name) || undeclared.contains(&row.name),
                "{}: exported by {version}, and no header declares it",
                row.name
            );
            continue;
        }
        changed(&mut row);
        let name = row.name;
        let function = match OVERLOADED.iter().find(|(overloaded, _)| *overloaded == name) {
            Some((_, kind)) => format!("static_cast<{kind}>(&{name})"),
            None => format!("&{name}"),
        };
        let ours: String = row.arguments.iter().map(|shape| format!(", {}", written(*shape))).collect();
        writeln!(
            source,
            "constexpr shape ours_{name}[] = {{shape{{'v', 0, 0}}{ours}}};\n\
             static_assert(check<std::remove_pointer<decltype({function})>::type>::like({}, ours_{name}), \"row {name};\");",
            written(row.result)
        )
        .expect("a string takes it");
        compared.push(name);
    }
    assert!(compared.len() > 40, "{version}: only {compared:?} found in the headers");
    let (ok, errors) = compiler(folder, &["-fsyntax-only"], &source);
    let wrong: Vec<&str> = compared.into_iter().filter(|name| errors.contains(&format!("static assertion failed: row {name};"))).collect();
    assert_eq!(ok, wrong.is_empty(), "{version}: {errors}");
    wrong
}

#[test]
fn every_signature_is_that_of_the_headers() {
    for (folder, version) in headers() {
        assert_eq!(differing(&folder, version, |_| {}), [""; 0], "{version}");
    }
}

#[test]
fn a_wrong_signature_is_noticed() {
    let (folder, version) = headers().pop().expect("there is one");
    let wrong = differing(&folder, version, |row| match row.name {
        "hipMalloc" => row.arguments[1] = <i32 as Shaped>::SHAPE,
        "hipFree" => row.arguments.push(<i32 as Shaped>::SHAPE),
        "hipMalloc3D" => row.arguments[1] = <*mut c_void as Shaped>::SHAPE,
        "hipMallocArray" => row.arguments[1] = <*const ArrayDesc as Shaped>::SHAPE,
        "hipDeviceReset" => row.result = <usize as Shaped>::SHAPE,
        _ => {}
    });
    let mut expected = ["hipMalloc", "hipFree", "hipMalloc3D", "hipMallocArray", "hipDeviceReset"];
    expected.sort_unstable();
    let mut wrong = wrong;
    wrong.sort_unstable();
    assert_eq!(wrong, expected);
}

#[test]
fn every_layout_is_that_of_the_headers() {
    for (folder, version) in headers() {
        let (major, minor) = (&version[..1], &version[2..3]);
        let (old, new) = (major == "5", major != "5");
        let mut source = "#include <stddef.h>\n#include <hip/hip_runtime_api.h>\n".to_owned();
        let mut equal = |left: &str, right: usize| writeln!(source, "static_assert({left} == {right}, \"\");").expect("a string takes it");
        equal("sizeof(hipExtent)", size_of::<Extent>());
        equal("sizeof(hipPitchedPtr)", size_of::<PitchedPtr>());
        equal("offsetof(hipPitchedPtr, pitch)", core::mem::offset_of!(PitchedPtr, pitch));
        equal("sizeof(hipChannelFormatDesc)", size_of::<ChannelDesc>());
        equal("offsetof(hipChannelFormatDesc, w)", core::mem::offset_of!(ChannelDesc, bits) + 12);
        equal("sizeof(HIP_ARRAY_DESCRIPTOR)", size_of::<ArrayDesc>());
        equal("offsetof(HIP_ARRAY_DESCRIPTOR, Height)", core::mem::offset_of!(ArrayDesc, height));
        equal("offsetof(HIP_ARRAY_DESCRIPTOR, Format)", core::mem::offset_of!(ArrayDesc, format));
        equal("offsetof(HIP_ARRAY_DESCRIPTOR, NumChannels)", core::mem::offset_of!(ArrayDesc, channels));
        equal("sizeof(HIP_ARRAY3D_DESCRIPTOR)", size_of::<Array3dDesc>());
        equal("offsetof(HIP_ARRAY3D_DESCRIPTOR, Depth)", core::mem::offset_of!(Array3dDesc, depth));
        equal("offsetof(HIP_ARRAY3D_DESCRIPTOR, Format)", core::mem::offset_of!(Array3dDesc, format));
        equal("offsetof(HIP_ARRAY3D_DESCRIPTOR, Flags)", core::mem::offset_of!(Array3dDesc, flags));
        equal("sizeof(hipMemLocation)", size_of::<abi::Location>());
        equal("sizeof(hipMemAllocationProp)", 32);
        equal("offsetof(hipMemAllocationProp, location)", if minor == "2" && old { abi::PROP_LOCATION_5_2 } else { abi::PROP_LOCATION });
        equal("hipMemLocationTypeDevice", abi::LOCATION_DEVICE as usize);
        if old {
            equal("sizeof(hipDeviceProp_t)", 792);
            equal("offsetof(hipDeviceProp_t, totalGlobalMem)", abi::TOTAL_R0000);
        }
        if new {
            equal("sizeof(hipDeviceProp_tR0600)", 1472);
            equal("offsetof(hipDeviceProp_tR0600, totalGlobalMem)", abi::TOTAL_R0600);
            equal("offsetof(hipGraphNodeParams, type)", 0);
            equal("offsetof(hipGraphNodeParams, alloc)", abi::NODE_PARAMS_ALLOC);
        }
        if version != "5.2.3" {
            equal("sizeof(hipMemAllocNodeParams)", size_of::<AllocNodeParams>());
            equal("offsetof(hipMemAllocNodeParams, poolProps.location)", core::mem::offset_of!(AllocNodeParams, location));
            equal("offsetof(hipMemAllocNodeParams, bytesize)", core::mem::offset_of!(AllocNodeParams, bytes));
            equal("hipGraphNodeTypeGraph", abi::NODE_CHILD as usize);
            equal("hipGraphNodeTypeMemAlloc", abi::NODE_ALLOC as usize);
            equal("hipGraphMemAttrUsedMemCurrent", abi::GRAPH_USED as usize);
            equal("hipGraphMemAttrReservedMemCurrent", abi::GRAPH_RESERVED as usize);
        }
        equal("hipDeviceAttributeTotalGlobalMem", abi::ATTRIBUTE_TOTAL as usize);
        equal("hipLimitMallocHeapSize", abi::LIMIT_HEAP as usize);
        if version != "5.2.3" {
            equal("hipLimitStackSize", abi::LIMIT_STACK as usize);
        }
        if version == "7.2.4" {
            equal("hipExtLimitScratchCurrent", abi::LIMIT_SCRATCH as usize);
        }
        equal("hipMemPoolAttrReservedMemCurrent", abi::POOL_RESERVED as usize);
        equal("hipMemPoolAttrUsedMemCurrent", abi::POOL_USED as usize);
        equal("hipStreamCaptureStatusNone", abi::CAPTURE_NONE as usize);
        equal("hipErrorOutOfMemory", abi::OUT_OF_MEMORY as usize);
        equal("HIP_AD_FORMAT_UNSIGNED_INT8 | HIP_AD_FORMAT_SIGNED_INT8", 0x01 | 0x08);
        equal("HIP_AD_FORMAT_UNSIGNED_INT16 | HIP_AD_FORMAT_SIGNED_INT16 | HIP_AD_FORMAT_HALF", 0x02 | 0x09 | 0x10);
        let (ok, error) = compiler(&folder, &["-fsyntax-only"], &source);
        assert!(ok, "{version}: {error}");
        let (ok, _) = compiler(&folder, &["-fsyntax-only"], &(source + "static_assert(sizeof(hipExtent) == 23, \"\");\n"));
        assert!(!ok, "{version}: the compiler looks");
    }
}
