//! Which launches of the bench's kernels, compiled by nvcc, are proved in
//! bounds: those whose addresses follow from the launch, with the bench's
//! buffers; and none with a buffer that is one byte too small.

use crate::common;

use instrument::{LaunchShape, Program, Reason};
use std::path::Path;
use std::process::Command;

/// A parameter of a kernel.
#[derive(Clone, Copy)]
enum Parameter {
    /// A pointer to so many bytes, of which the first so many are accessed.
    Buffer(u64, u64),
    Integer(u64),
    Float,
}

use Parameter::{Buffer, Float, Integer};

struct Launch {
    kernel: &'static str,
    grid: [u64; 3],
    block: [u32; 3],
    parameters: Vec<Parameter>,
}

fn all(bytes: u64) -> Parameter {
    Buffer(bytes, bytes)
}

fn blocks(n: u64, threads: u64) -> u64 {
    n.div_ceil(threads)
}

/// What the bench launches, for a problem of one, two and three dimensions.
#[expect(
    clippy::too_many_lines,
    reason = "a table: a row for each launch of the bench"
)]
fn launches(n: u64, side: u64, cube: u64) -> Vec<Launch> {
    let launch = |kernel, grid: [u64; 2], block: [u32; 2], parameters: &[Parameter]| Launch {
        kernel,
        grid: [grid[0], grid[1], 1],
        block: [block[0], block[1], 1],
        parameters: parameters.to_vec(),
    };
    let square = all(side * side * 4);
    let line =
        |kernel, grid, parameters: &[Parameter]| launch(kernel, [grid, 1], [256, 1], parameters);
    let plane = side * side;
    let volume = cube * cube * cube;
    // The neighbours of the last inner point.
    let inner = (side - 1) * side - 1;
    let inner_volume = (cube - 1) * cube * cube - cube - 1;
    vec![
        line(
            "triad",
            blocks(n, 256),
            &[all(n * 4), all(n * 4), all(n * 4), Float, Integer(n)],
        ),
        line(
            "saxpy",
            blocks(n, 256).min(132 * 16),
            &[Integer(n), Float, all(n * 4), all(n * 4)],
        ),
        line(
            "copy_float4",
            blocks(n / 4, 256),
            &[all(n / 4 * 16), all(n / 4 * 16), Integer(n / 4)],
        ),
        launch(
            "gemm_naive",
            [blocks(side, 16), blocks(side, 16)],
            [16, 16],
            &[square, square, square, Integer(side)],
        ),
        launch(
            "gemm_tiled",
            [side / 64, side / 64],
            [256, 1],
            &[square, square, square, Integer(side)],
        ),
        line(
            "matvec_row",
            blocks(side, 8),
            &[
                square,
                all(side * 4),
                all(side * 4),
                Integer(side),
                Integer(side),
            ],
        ),
        launch(
            "matvec_column",
            [blocks(side, 64), 1],
            [64, 1],
            &[
                square,
                all(side * 4),
                all(side * 4),
                Integer(side),
                Integer(side),
            ],
        ),
        launch(
            "jacobi_2d",
            [blocks(side, 32), blocks(side, 8)],
            [32, 8],
            &[
                Buffer(plane * 4, (plane - 1) * 4),
                Buffer(plane * 4, inner * 4),
                Integer(side),
            ],
        ),
        launch(
            "stencil_3d",
            [blocks(cube, 32), blocks(cube, 8)],
            [32, 8],
            &[
                Buffer(volume * 4, (inner_volume + cube * cube) * 4),
                Buffer(volume * 4, inner_volume * 4),
                Integer(cube),
            ],
        ),
        launch(
            "transpose",
            [blocks(side, 32), blocks(side, 32)],
            [32, 8],
            &[square, square, Integer(side)],
        ),
        line(
            "reduction",
            blocks(n, 256).min(132 * 8),
            &[all(n * 4), all(4), Integer(n)],
        ),
        line(
            "histogram",
            blocks(n, 256).min(132 * 8),
            &[all(n), all(1024), Integer(n)],
        ),
        line(
            "n_body",
            blocks(n, 256),
            &[all(n * 16), all(n * 16), Integer(n)],
        ),
    ]
}

/// Addresses of the buffers: far apart, so that no two are confused.
const APART: u64 = 1 << 40;

/// What a program reads of a parameter block.
fn inputs(program: &Program, bytes: &[u8]) -> Vec<u64> {
    let read = |input: &instrument::Input| {
        let at = input.offset as usize;
        let mut bits = [0; 8];
        let size = usize::from(input.bytes);
        bits[..size].copy_from_slice(&bytes[at..at + size]);
        u64::from_le_bytes(bits)
    };
    program.inputs().iter().map(read).collect()
}

fn proves(program: &Program, launch: &Launch, smaller: Option<usize>) -> bool {
    let mut bytes = Vec::new();
    let mut buffers = Vec::new();
    for (index, parameter) in launch.parameters.iter().enumerate() {
        let base = (index as u64 + 1) * APART;
        match *parameter {
            Buffer(size, accessed) => {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                let size = match smaller == Some(index) {
                    true => accessed - 1,
                    false => size,
                };
                buffers.push((bytes.len() as u32, (base, size)));
                bytes.extend(base.to_le_bytes());
            }
            Integer(value) => bytes.extend(i32::try_from(value).expect("an int").to_le_bytes()),
            Float => bytes.extend(2f32.to_le_bytes()),
        }
    }
    let inputs = inputs(program, &bytes);
    let shape = LaunchShape {
        grid: launch.grid.map(|count| count as u32),
        block: launch.block,
        shared: 0,
    };
    let bounds = |offset: u32| {
        let found = buffers.iter().find(|(at, _)| *at == offset)?;
        Some(found.1)
    };
    program
        .proves_in_parts(&shape, &common::single(&inputs), &bounds)
        .is_proved
}

fn bench(architecture: &str) -> instrument::Instrumented {
    compiled(&common::root().join("bench/kernels/bench.cu"), architecture)
}

fn compiled(source: &Path, architecture: &str) -> instrument::Instrumented {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("out.ptx");
    let done = Command::new(common::tool("nvcc"))
        .args(["-w", "-std=c++17", "-lineinfo", "-ptx"])
        .arg(format!("-arch=compute_{architecture}"))
        .arg(source)
        .arg("-o")
        .arg(&output)
        .output()
        .expect("nvcc runs");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let text = std::fs::read_to_string(&output).expect("nvcc wrote a file");
    common::instrument(&source.display().to_string(), &text)
}

/// What a kernel is proved by, by its name before it was mangled.
fn proof<'x>(
    made: &'x instrument::Instrumented,
    kernel: &str,
) -> Result<&'x Program, &'x instrument::Obstacle> {
    let mangled = format!("_Z{}{kernel}", kernel.len());
    let entry = made.entries.iter();
    let mut entry = entry.filter(|entry| entry.name.starts_with(&mangled));
    entry.next().expect("the kernel").proof.as_ref()
}

#[test]
fn what_follows_from_the_launch_is_proved_and_nothing_smaller() {
    let mut wrong = Vec::new();
    for architecture in ["75", "90"] {
        let made = bench(architecture);
        // The sizes that are measured, and small ones that fill no block.
        let sizes = [
            (1 << 26, 16384, 512),
            (1 << 16, 8192, 512),
            (1 << 26, 4096, 512),
            (1 << 26, 2048, 512),
            (5000, 64, 20),
        ];
        for (n, side, cube) in sizes {
            for launch in launches(n, side, cube) {
                let kernel = launch.kernel;
                let program = match proof(&made, kernel) {
                    Ok(program) => program,
                    Err(obstacle) => {
                        wrong.push(format!("sm_{architecture} {kernel}: {obstacle}"));
                        continue;
                    }
                };
                if !proves(program, &launch, None) {
                    wrong.push(format!(
                        "sm_{architecture} {kernel}, {n} {side} {cube}: not proved"
                    ));
                }
                for (index, parameter) in launch.parameters.iter().enumerate() {
                    let is_buffer = matches!(parameter, Buffer(..));
                    if is_buffer && proves(program, &launch, Some(index)) {
                        wrong.push(format!(
                            "sm_{architecture} {kernel}, {n} {side} {cube}: proved, although \
                             buffer {index} is too small"
                        ));
                    }
                }
            }
        }
        for kernel in ["csr_spmv", "gather", "bfs_step"] {
            match proof(&made, kernel) {
                Err(obstacle) if obstacle.reason == Reason::Address => {}
                other => wrong.push(format!("sm_{architecture} {kernel}: {:?}", other.err())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One kernel for each space, over an array of 64 integers in it, of which
/// each thread indexes one, from `first` on.
const SPACES: &str = r"
__global__ void in_shared(int *out, int first) {
    __shared__ volatile int before[16], array[64];
    before[threadIdx.x % 16] = 0;
    array[first + (int)threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) out[0] = array[3] + before[3];
}
extern __shared__ volatile int dynamic[];
__global__ void in_dynamic(int *out, int first) {
    dynamic[first + (int)threadIdx.x] = 1;
    out[0] = 1;
}
__global__ void in_local(int *out, int first) {
    volatile int before[16], array[64];
    before[threadIdx.x % 16] = 0;
    array[first + (int)threadIdx.x] = 1;
    out[0] = array[3] + before[threadIdx.x % 8];
}
__constant__ int table[64];
__global__ void in_constant(int *out, int first) {
    out[0] = table[first + (int)threadIdx.x];
}
struct Array { int elements[64]; };
__global__ void in_parameter(int *out, int first, Array array) {
    out[0] = array.elements[first + (int)threadIdx.x];
}
";

#[test]
fn arrays_in_all_spaces_are_proved_up_to_their_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("spaces.cu");
    std::fs::write(&source, SPACES).expect("a written file");
    let mut wrong = Vec::new();
    for architecture in ["75", "90"] {
        let made = compiled(&source, architecture);
        for kernel in [
            "in_shared",
            "in_dynamic",
            "in_local",
            "in_constant",
            "in_parameter",
        ] {
            let program = match proof(&made, kernel) {
                Ok(program) => program,
                Err(obstacle) => {
                    wrong.push(format!("sm_{architecture} {kernel}: {obstacle}"));
                    continue;
                }
            };
            for (first, threads, fits) in [
                (0, 64, true),
                (1, 63, true),
                (63, 1, true),
                (0, 65, false),
                (1, 64, false),
                (64, 1, false),
                (-1, 2, false),
            ] {
                let first: i32 = first;
                let mut bytes = APART.to_le_bytes().to_vec();
                bytes.extend(first.to_le_bytes());
                let inputs = inputs(program, &bytes);
                let shape = LaunchShape {
                    grid: [2, 1, 1],
                    block: [threads, 1, 1],
                    shared: 256,
                };
                let bounds = |_| Some((APART, 4));
                let proved = program
                    .proves_in_parts(&shape, &common::single(&inputs), &bounds)
                    .is_proved;
                if proved != fits {
                    wrong.push(format!(
                        "sm_{architecture} {kernel}: {threads} from {first} on: proved {proved}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
