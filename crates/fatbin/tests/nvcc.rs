//! Reads what the pinned nvcc writes, in every form that it offers.

use fatbin::{Compression, Kind, Target, best_elf, best_ptx, parse};
use object::{Object, ObjectSection};
use std::process::Command;

const LIMIT: u64 = 1 << 24;
const SOURCE: &str = r"
__global__ void scale(int *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = i * 3;
}
int main() { scale<<<1, 32>>>(nullptr, 0); return 0; }
";

fn nvcc(arguments: &[&str], output: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::write(folder.path().join("scale.cu"), SOURCE).expect("write the source");
    let cuda = toolchain::cuda();
    let result = Command::new(cuda.nvcc())
        .current_dir(folder.path())
        .arg(format!("-L{}", cuda.libraries().display()))
        .args(arguments)
        .args(["scale.cu", "-o", output])
        .output()
        .expect("start nvcc");
    assert!(
        result.status.success(),
        "{}",
        String::from_utf8_lossy(&result.stderr)
    );
    std::fs::read(folder.path().join(output)).expect("read what nvcc wrote")
}

const ARCHITECTURES: [&str; 6] = [
    "-gencode",
    "arch=compute_90a,code=compute_90a",
    "-gencode",
    "arch=compute_75,code=[sm_75,compute_75]",
    "-gencode",
    "arch=compute_100f,code=compute_100f",
];

#[test]
fn every_compression_mode() {
    for (mode, expected) in [
        ("none", Compression::None),
        ("speed", Compression::Lz4),
        ("balance", Compression::Zstd),
        ("size", Compression::Zstd),
        ("default", Compression::Zstd),
    ] {
        let mode = format!("--compress-mode={mode}");
        let mut arguments = vec!["-fatbin", &mode];
        arguments.extend(ARCHITECTURES);
        let bytes = nvcc(&arguments, "scale.fatbin");
        let entries = parse(&bytes).expect("nvcc's own output");
        let ptx: Vec<_> = entries
            .iter()
            .filter(|entry| entry.kind == Kind::Ptx)
            .collect();
        assert_eq!(ptx.len(), 3);
        for entry in ptx {
            assert_eq!(entry.compression, expected, "{mode}");
            assert_eq!(entry.version, (9, 0));
            let payload = entry.payload(LIMIT).expect("decompresses");
            let text = std::str::from_utf8(&payload).expect("PTX is text");
            let target = match entry.target() {
                Target::Generic => format!(".target sm_{}\n", entry.arch),
                Target::Family => format!(".target sm_{}f\n", entry.arch),
                Target::Exact => format!(".target sm_{}a\n", entry.arch),
            };
            assert!(text.contains(&target), "{target} is not in {text}");
            assert!(text.contains("_Z5scalePii") && text.trim_end().ends_with('}'));
        }
        let elf = entries
            .iter()
            .find(|entry| entry.kind == Kind::Elf)
            .expect("a cubin");
        assert_eq!(&elf.payload(LIMIT).expect("decompresses")[..4], b"\x7fELF");
    }
}

#[test]
fn the_best_fit() {
    let mut arguments = vec!["-fatbin"];
    arguments.extend(ARCHITECTURES);
    let bytes = nvcc(&arguments, "scale.fatbin");
    let entries = parse(&bytes).expect("nvcc's own output");
    let arch = |capability| best_ptx(&entries, capability).map(|entry| entry.arch);
    assert_eq!(arch(70), None);
    assert_eq!(arch(75), Some(75));
    assert_eq!(arch(89), Some(75));
    assert_eq!(arch(90), Some(90));
    // sm_90a fits only 9.0.
    assert_eq!(arch(95), Some(75));
    assert_eq!(arch(100), Some(100));
    assert_eq!(arch(103), Some(100));
    assert_eq!(arch(120), Some(75));
    let elf = |capability| best_elf(&entries, capability).map(|entry| entry.arch);
    assert_eq!((elf(75), elf(80), elf(70)), (Some(75), None, None));
}

#[test]
fn names_and_options_in_long_headers() {
    let bytes = nvcc(
        &["-fatbin", "-rdc=true", "-lineinfo", "-arch=sm_90"],
        "scale.fatbin",
    );
    for entry in parse(&bytes).expect("nvcc's own output") {
        assert_eq!(entry.identifier, Some("scale.cu"));
        assert!(!entry.is_debug());
    }
    let bytes = nvcc(&["-fatbin", "-G", "-arch=sm_90"], "scale.fatbin");
    assert!(
        parse(&bytes)
            .expect("nvcc's own output")
            .iter()
            .all(|entry| entry.is_debug())
    );
    let bytes = nvcc(&["-fatbin", "-dlto", "-arch=sm_90"], "scale.fatbin");
    assert!(
        parse(&bytes)
            .expect("nvcc's own output")
            .iter()
            .any(|entry| entry.kind == Kind::LtoIr)
    );
}

/// The section of a whole program holds several containers: those of the
/// static runtime library and the program's own.
#[test]
fn section_of_a_program() {
    for (arguments, section) in [
        (&["-arch=sm_75"][..], ".nv_fatbin"),
        (&["-rdc=true", "-arch=compute_75"][..], ".nv_fatbin"),
        (&["-rdc=true", "-arch=compute_75"][..], "__nv_relfatbin"),
    ] {
        let program = nvcc(arguments, "scale");
        let file = object::File::parse(&*program).expect("an ELF file");
        let section = file
            .section_by_name(section)
            .expect("the section")
            .data()
            .expect("its bytes");
        let entries = parse(section).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        for entry in &entries {
            entry.payload(LIMIT).expect("decompresses");
        }
        let header: &[u8; 16] = section[..16].try_into().expect("16 bytes");
        assert!(fatbin::container_size(header).expect("a container") <= section.len() as u64);
        if let Some(ptx) = best_ptx(&entries, 90) {
            let payload = ptx.payload(LIMIT).expect("decompresses");
            let text = std::str::from_utf8(&payload).expect("PTX is text");
            assert!(text.contains(".version 9.0"), "{text}");
        }
    }
}
