use super::code::accessed;
use super::*;

/// A section to write.
struct Written {
    kind: u32,
    link: u32,
    info: u32,
    row: u64,
    address: u64,
    bytes: Vec<u8>,
    name: u32,
}

const CUDA: u16 = 190;

/// An ELF file of these sections, which are numbered from 1; the last one holds
/// the names.
fn elf(sections: &[Written], names: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut headers = vec![[0u8; 64]];
    let names = Written {
        kind: 3,
        link: 0,
        info: 0,
        row: 0,
        address: 0,
        bytes: names.to_vec(),
        name: 0,
    };
    for section in sections.iter().chain([&names]) {
        while !body.len().is_multiple_of(16) {
            body.push(0);
        }
        let mut header = [0u8; 64];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &section.name.to_le_bytes());
        put(4, &section.kind.to_le_bytes());
        put(16, &section.address.to_le_bytes());
        put(24, &(64 + body.len() as u64).to_le_bytes());
        put(32, &(section.bytes.len() as u64).to_le_bytes());
        put(40, &section.link.to_le_bytes());
        put(44, &section.info.to_le_bytes());
        put(48, &1u64.to_le_bytes());
        put(56, &section.row.to_le_bytes());
        headers.push(header);
        body.extend(&section.bytes);
    }
    while !body.len().is_multiple_of(16) {
        body.push(0);
    }
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0x33, 7];
    file.resize(16, 0);
    file.extend(4u16.to_le_bytes());
    file.extend(CUDA.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    file.extend([0u64; 2].map(u64::to_le_bytes).concat());
    file.extend((64 + body.len() as u64).to_le_bytes());
    file.extend(0u32.to_le_bytes());
    let rest: [u16; 6] = [64, 0, 0, 64, headers.len() as u16, headers.len() as u16 - 1];
    file.extend(rest.map(u16::to_le_bytes).concat());
    file.extend(body);
    file.extend(headers.concat());
    file
}

fn words(words: &[u32], size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(size, 0);
    bytes
}

/// `LDG.E R0, desc[UR4][R2.64 - 8]`, as ptxas writes it.
const LOAD: [u64; 2] = [0xffff_f804_0200_7981, 0x000e_a800_0c1e_1900];
const ENTRY: u64 = 0x7f12_3400_0000;
const PC: u64 = ENTRY + 32;

fn image(code: &[u8]) -> Vec<u8> {
    let code = code.to_vec();
    let text = Written {
        kind: 1,
        link: 0,
        info: 0,
        row: 0,
        address: ENTRY,
        bytes: code,
        name: 1,
    };
    elf(&[text], b"\0.text._Z3sumPKi\0")
}

/// A dump in which lanes 1 and 2 of a warp were stopped; a lane's R2 and R3 are
/// its number, times 256, and 0x4100; R4 and R5 are 0x1000 and 0x5200.
fn dump(row: usize) -> Vec<u8> {
    let mut code = vec![0; 48];
    code[32..40].copy_from_slice(&LOAD[0].to_le_bytes());
    code[40..48].copy_from_slice(&LOAD[1].to_le_bytes());
    dump_of(row, &code)
}

/// The same, of three instructions, of which the last was executed.
fn dump_of(row: usize, code: &[u8]) -> Vec<u8> {
    const OWN: u32 = 0x8000_0000;
    let section = |kind, link, info, row: usize, bytes| Written {
        kind: OWN + kind,
        link,
        info,
        row: row as u64,
        address: 0,
        bytes,
        name: 0,
    };
    let low = |value: u64| value as u32;
    let high = |value: u64| (value >> 32) as u32;
    let lane = |number: u32| {
        let pc = PC + 16;
        words(
            &[
                low(pc),
                high(pc),
                0,
                0,
                number,
                64 + number,
                1,
                2,
                0,
                1,
                0,
                0,
            ],
            row,
        )
    };
    let mut sections = vec![
        // An SM without anything, and one with two blocks.
        section(11, 0, 0, 48, vec![0; 96]),
        section(
            13,
            1,
            1,
            24,
            words(&[1, 0, 9, 9, 9, 0, 1, 0, 5, 6, 7, 0], 48),
        ),
        // Of the second block, two warps, of which the second was stopped.
        section(
            14,
            2,
            1,
            32,
            words(
                &[
                    1,
                    2,
                    0,
                    7,
                    7,
                    0,
                    0,
                    0,
                    low(PC),
                    high(PC),
                    1,
                    7,
                    0b110,
                    1,
                    1,
                    0,
                ],
                64,
            ),
        ),
        section(15, 3, 1, row, [lane(0), lane(1), lane(2)].concat()),
    ];
    for number in 0..3 {
        let registers = words(&[0, 0, number * 256, 0x4100, 0x1000, 0x5200], 1024);
        sections.push(section(5, 4, number, 4, registers));
    }
    sections.push(section(7, 0, 0, 0, image(code)));
    elf(&sections, b"\0")
}

#[test]
fn the_threads_of_a_stopped_warp_are_read_with_their_addresses() {
    for row in [48, 64] {
        let faults = faults(&dump(row)).unwrap();
        assert_eq!(faults.len(), 2);
        for (fault, lane) in faults.iter().zip([1, 2]) {
            assert_eq!(fault.function.as_deref(), Some("_Z3sumPKi"));
            assert_eq!((fault.block, fault.thread), ([5, 6, 7], [64 + lane, 1, 2]));
            assert_eq!((fault.pc, fault.offset), (PC, Some(32)));
            let address = 0x4100_0000_0000 + u64::from(lane) * 256 - 8;
            assert_eq!(fault.addresses, [address]);
        }
    }
}

#[test]
fn instructions_before_the_reported_one_have_addresses_too() {
    // Both loads of the code, and nothing before its start.
    let mut code = [LOAD[0], LOAD[1], 0, 0].map(u64::to_le_bytes).concat();
    let second = LOAD[0] & !(0xff << 24) | 4 << 24;
    code.extend([second, LOAD[1]].map(u64::to_le_bytes).concat());
    let dump = dump_of(48, &code);
    let faults = faults(&dump).unwrap();
    let own = 0x5200_0000_0000 + 0x1000 - 8;
    assert_eq!(faults[0].addresses, [own, 0x4100_0000_0000 + 256 - 8]);
}

#[test]
fn rows_that_are_too_short_and_files_that_are_cut_off_are_errors() {
    let short = faults(&dump(24));
    assert!(
        matches!(short, Err(CoreDumpError::Short { .. })),
        "{short:?}"
    );
    let whole = dump(48);
    for length in [0, 10, 63, 100, whole.len() / 2, whole.len() - 1] {
        let cut = faults(&whole[..length]);
        assert!(matches!(cut, Err(CoreDumpError::Malformed(_))), "{length}");
    }
    for at in 0..whole.len() {
        // Nothing panics, whatever a byte is.
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        let _ = faults(&changed);
    }
}

#[test]
fn addresses_are_computed_from_registers() {
    let registers = words(&[7, 9, 0x10, 0x4100], 16);
    assert_eq!(accessed(LOAD, &registers), Some(0x4100_0000_0008));
    // Of 32 bits, and of the register that is zero.
    assert_eq!(accessed([LOAD[0], 0], &registers), Some(8));
    let of_zero = LOAD[0] & !(0xff << 24) | 0xff << 24;
    assert_eq!(
        accessed([of_zero, LOAD[1]], &registers),
        Some(0u64.wrapping_sub(8))
    );
    // No access, and a register that is missing.
    assert_eq!(accessed([0x7210, LOAD[1]], &registers), None);
    assert_eq!(accessed(LOAD, &registers[..12]), None);
}
