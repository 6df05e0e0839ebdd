//! The engine on kernels as the compiler writes them: grid-stride loop, struct
//! parameter, call, pointer table, product, block reduction.

use crate::common;

use common::{Bench, P, compile, named};

const SOURCE: &str = r#"
struct Pair { float *a; int n; float *b; };
__device__ int counter;
__device__ __noinline__ float get(const float *p, int i) { return p[i]; }
__global__ void saxpy(int n, float a, const float *x, float *y) { for (int i = blockIdx.x*blockDim.x+threadIdx.x; i < n; i += gridDim.x*blockDim.x) y[i] = a*x[i]+y[i]; }
__global__ void shifted(Pair p) { int i = threadIdx.x; if (i < p.n) p.a[i] = p.b[i+1] + get(p.b, i); atomicAdd(&counter, 1); }
__global__ void rows(float **t, int n) { float *q = t[threadIdx.x]; for (int i=0;i<n;i++) q[i] += 1; }
__global__ void product(const float *A,const float *B,float *C,int n){ int r=blockIdx.y*blockDim.y+threadIdx.y,c=blockIdx.x*blockDim.x+threadIdx.x; float s=0; for(int k=0;k<n;k++) s+=A[r*n+k]*B[k*n+c]; C[r*n+c]=s; }
__global__ void reduction(const float*x,float*o,int n){ __shared__ float s[256]; int i=blockIdx.x*256+threadIdx.x; s[threadIdx.x]=i<n?x[i]:0; __syncthreads(); for(int k=128;k;k>>=1){ if(threadIdx.x<k) s[threadIdx.x]+=s[threadIdx.x+k]; __syncthreads(); } if(!threadIdx.x) atomicAdd(o,s[0]); }
"#;

fn on(arch: &str, wide: bool) {
    let bench = Bench::with(wide);
    let program = bench.link(&[&compile("demo", SOURCE, arch, &[])]);
    let n = 1000usize;
    let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.25).collect();
    let y: Vec<f32> = (0..n).map(|i| 1000.0 - i as f32).collect();

    let (dx, dy) = (bench.f32s(&x), bench.f32s(&y));
    let stats = bench
        .launch(
            &program,
            named(&program, "saxpy"),
            [3, 1, 1],
            [128, 1, 1],
            &[P::U32(n as u32), P::F32(2.5), P::U64(dx), P::U64(dy)],
        )
        .unwrap();
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x.mul_add(2.5, *y)).collect();
    assert_eq!(bench.read_f32s(dy, n), expected);
    assert!(stats.thread_instructions > 10 * n as u64);
    assert_eq!(stats.blocks, 3);

    let da = bench.f32s(&[0.0; 64]);
    let mut pair = Vec::new();
    pair.extend(da.to_le_bytes());
    pair.extend(60u32.to_le_bytes());
    pair.extend([0; 4]);
    pair.extend(dx.to_le_bytes());
    bench
        .launch(
            &program,
            named(&program, "shifted"),
            [1, 1, 1],
            [64, 1, 1],
            &[P::Bytes(&pair, 8)],
        )
        .unwrap();
    let a = bench.read_f32s(da, 64);
    for i in 0..64 {
        assert_eq!(
            a[i],
            if i < 60 { x[i + 1] + x[i] } else { 0.0 },
            "element {i}"
        );
    }
    let counter = program.variable("counter").unwrap();
    assert_eq!(counter.size, 4);
    assert_eq!(bench.read_u32s(counter.address, 1), [64]);

    let rows: Vec<u64> = (0..40).map(|i| bench.f32s(&[i as f32; 37])).collect();
    let table = bench.u64s(&rows);
    bench
        .launch(
            &program,
            named(&program, "rows"),
            [1, 1, 1],
            [40, 1, 1],
            &[P::U64(table), P::U32(37)],
        )
        .unwrap();
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(
            bench.read_f32s(*row, 38),
            [vec![i as f32 + 1.0; 37], vec![0.0]].concat()
        );
    }

    let size = 48usize;
    let a: Vec<f32> = (0..size * size).map(|i| (i % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..size * size).map(|i| (i % 5) as f32 - 2.0).collect();
    let (da, db, dc) = (
        bench.f32s(&a),
        bench.f32s(&b),
        bench.f32s(&vec![0.0; size * size]),
    );
    bench
        .launch(
            &program,
            named(&program, "product"),
            [3, 3, 1],
            [16, 16, 1],
            &[P::U64(da), P::U64(db), P::U64(dc), P::U32(size as u32)],
        )
        .unwrap();
    let c = bench.read_f32s(dc, size * size);
    for r in 0..size {
        for col in 0..size {
            let expected: f32 = (0..size).map(|k| a[r * size + k] * b[k * size + col]).sum();
            assert_eq!(c[r * size + col], expected);
        }
    }

    let sum = bench.f32s(&[0.0]);
    bench
        .launch(
            &program,
            named(&program, "reduction"),
            [4, 1, 1],
            [256, 1, 1],
            &[P::U64(dx), P::U64(sum), P::U32(n as u32)],
        )
        .unwrap();
    assert_eq!(bench.read_f32s(sum, 1)[0], x.iter().sum::<f32>());
}

#[test]
fn demo_kernels_for_every_target_and_processor() {
    for arch in ["sm_75", "sm_90", "sm_100"] {
        for wide in [false, true] {
            on(arch, wide);
        }
    }
}
