//! Texture objects: what a fetch gives by index, by coordinate, at the edge.

use super::Rig;
use crate::device::{Plane, Sampler, Texture};
use driver::sys::{
    CUaddress_mode as Mode, CUarray_format as Format, CUfilter_mode as Filter, CUresult,
};

/// Fetches with the thread's coordinates and stores the first two channels.
const FETCH: &str = r#"
.version 7.8
.target sm_75
.address_size 64
.visible .entry by_index(.param .u64 t, .param .u64 x, .param .u64 out)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [t];
    ld.param.u64 %rd2, [x];
    ld.param.u64 %rd3, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd4, %r1, 8;
    add.u64 %rd5, %rd2, %rd4;
    ld.global.u32 %r2, [%rd5];
    tex.1d.v4.s32.s32 {%r3, %r4, %r5, %r6}, [%rd1, {%r2}];
    add.u64 %rd6, %rd3, %rd4;
    st.global.v2.u32 [%rd6], {%r3, %r4};
    ret;
}
.visible .entry by_place(.param .u64 t, .param .u64 x, .param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [t];
    ld.param.u64 %rd2, [x];
    ld.param.u64 %rd3, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd4, %r1, 8;
    add.u64 %rd5, %rd2, %rd4;
    ld.global.v2.f32 {%f1, %f2}, [%rd5];
    tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%f1, %f2}];
    add.u64 %rd6, %rd3, %rd4;
    st.global.v2.f32 [%rd6], {%f3, %f4};
    ret;
}
"#;

/// A grid of 3 x 2 floats, 10 y + x, in rows of 32 bytes.
fn grid(rig: &Rig, mode: Mode, filter: Filter, normalized: bool) -> Texture {
    let address = rig.words(16);
    for (index, value) in [0.0f32, 1.0, 2.0, 10.0, 11.0, 12.0].into_iter().enumerate() {
        rig.set_word(
            address + index as u64 / 3 * 32 + index as u64 % 3 * 4,
            value.to_bits(),
        );
    }
    Texture {
        levels: vec![Plane {
            address,
            width: 3,
            height: 2,
            depth: 0,
            pitch: 32,
            slice: 0,
        }],
        format: Format::CU_AD_FORMAT_FLOAT,
        channels: 1,
        sampler: Sampler {
            modes: [mode; 3],
            filter,
            normalized,
            ..Sampler::POINT
        },
    }
}

/// Fetches at each place.
fn fetch(rig: &Rig, kernel: &str, texture: &Texture, places: &[[u32; 2]]) -> Vec<[u32; 2]> {
    let module = rig.device.load_module(&[FETCH]).expect("the kernels load");
    let handle = rig.device.texture_create(texture).expect("a texture");
    let (input, output) = (rig.words(64), rig.words(64));
    for (index, place) in places.iter().enumerate() {
        rig.set_word(input + 8 * index as u64, place[0]);
        rig.set_word(input + 8 * index as u64 + 4, place[1]);
    }
    let parameters: Vec<u8> = [handle, input, output]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let mut launch = rig.launch("stop", places.len() as u32, &parameters);
    launch.function = rig.device.function(module, kernel).expect("an entry");
    rig.device.launch(launch, 0).expect("launched");
    rig.device.synchronize().expect("no fault");
    rig.device.texture_destroy(handle).expect("destroyed");
    assert_eq!(
        rig.device.texture_destroy(handle),
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    );
    (0..places.len() as u64)
        .map(|index| {
            [
                rig.word(output + 8 * index),
                rig.word(output + 8 * index + 4),
            ]
        })
        .collect()
}

fn sample(texture: &Texture, rig: &Rig, places: &[[f32; 2]]) -> Vec<f32> {
    let places: Vec<[u32; 2]> = places.iter().map(|place| place.map(f32::to_bits)).collect();
    fetch(rig, "by_place", texture, &places)
        .into_iter()
        .map(|values| f32::from_bits(values[0]))
        .collect()
}

#[test]
fn linear_memory_is_fetched_by_index_and_zero_outside() {
    let rig = Rig::new();
    let address = rig.words(4);
    // Pairs of signed 16-bit integers.
    for (index, word) in [0xffff_0001u32, 0x0004_fffd, 7, 8].into_iter().enumerate() {
        rig.set_word(address + 4 * index as u64, word);
    }
    let plane = Plane {
        address,
        width: 3,
        height: 0,
        depth: 0,
        pitch: 0,
        slice: 0,
    };
    let of = |plane: Plane| Texture {
        levels: vec![plane],
        format: Format::CU_AD_FORMAT_SIGNED_INT16,
        channels: 2,
        sampler: Sampler::POINT,
    };
    let texture = of(plane);
    let places = [0, 1, 2, 3, -1i32 as u32].map(|index| [index, 0]);
    let minus = |value: i32| -value as u32;
    assert_eq!(
        fetch(&rig, "by_index", &texture, &places),
        [[1, minus(1)], [minus(3), 4], [7, 0], [0, 0], [0, 0]]
    );
    // The whole range must be memory of the device.
    let long = of(Plane { width: 5, ..plane });
    assert_eq!(
        rig.device.texture_create(&long),
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    );
    let odd = of(Plane {
        address: address + 4,
        width: 1,
        ..plane
    });
    assert_eq!(
        rig.device.texture_create(&odd),
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    );
}

#[test]
fn the_nearest_texel_and_what_lies_outside() {
    let rig = Rig::new();
    let point = Filter::CU_TR_FILTER_MODE_POINT;
    let places = [
        [0.5, 0.5],
        [2.99, 1.99],
        [-0.5, 0.5],
        [3.0, 1.5],
        [1.5, -4.0],
    ];
    let clamped = grid(&rig, Mode::CU_TR_ADDRESS_MODE_CLAMP, point, false);
    assert_eq!(sample(&clamped, &rig, &places), [0.0, 12.0, 0.0, 12.0, 1.0]);
    let border = grid(&rig, Mode::CU_TR_ADDRESS_MODE_BORDER, point, false);
    assert_eq!(sample(&border, &rig, &places), [0.0, 12.0, 0.0, 0.0, 0.0]);
    let thirds = [
        [1.5 / 3.0, 0.75],
        [3.5 / 3.0, 0.25],
        [-0.5 / 3.0, 0.25],
        [0.5 / 3.0, 1.25],
    ];
    let wrapped = grid(&rig, Mode::CU_TR_ADDRESS_MODE_WRAP, point, true);
    assert_eq!(sample(&wrapped, &rig, &thirds), [11.0, 0.0, 2.0, 0.0]);
    let mirrored = grid(&rig, Mode::CU_TR_ADDRESS_MODE_MIRROR, point, true);
    assert_eq!(sample(&mirrored, &rig, &thirds), [11.0, 2.0, 0.0, 10.0]);
}

#[test]
fn blending_uses_weights_of_eight_bits() {
    let rig = Rig::new();
    let linear = Filter::CU_TR_FILTER_MODE_LINEAR;
    let clamped = grid(&rig, Mode::CU_TR_ADDRESS_MODE_CLAMP, linear, false);
    let places = [
        [0.5, 0.5],
        [1.0, 0.5],
        [1.0, 1.0],
        [0.0, 0.0],
        [2.9, 9.0],
        [0.5 + 1.0 / 1024.0, 0.5],
    ];
    assert_eq!(
        sample(&clamped, &rig, &places),
        [0.0, 0.5, 5.5, 0.0, 12.0, 0.0]
    );
    // Integers are blended only as fractions.
    let bytes = Texture {
        format: Format::CU_AD_FORMAT_UNSIGNED_INT8,
        ..clamped
    };
    assert_eq!(
        rig.device.texture_create(&bytes),
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    );
    let mut fractions = bytes;
    fractions.sampler.integers = false;
    rig.set_word(fractions.levels[0].address, 0xff33);
    assert_eq!(
        sample(&fractions, &rig, &[[0.5, 0.5], [1.5, 0.5], [1.0, 0.5]]),
        [0.2, 1.0, 0.6]
    );
}
