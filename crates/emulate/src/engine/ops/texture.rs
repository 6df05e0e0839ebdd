//! `tex` on texture objects over linear and pitched memory (PTX ISA 9.7.10).
//!
//! A texture object is the address of its description ([`words`]), which the
//! device writes when the object is made. Filtering follows the CUDA
//! programming guide, "Texture Fetching": weights of eight fractional bits.

use crate::engine::access::load_one;
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, SpaceTag, malformed, unsupported};
use crate::engine::inst::{Class, Flow, Inst, NONE};
use crate::engine::lanes::lanes;
use crate::engine::warp::Warp;
use crate::mapping::AccessFault;
use ptx::{OperandKind, Type};

/// Words of 64 bits of a description, by position.
pub(crate) mod words {
    /// First byte of the memory.
    pub const ADDRESS: u64 = 0;
    /// Texels of a row.
    pub const WIDTH: u64 = 1;
    /// Rows; 0 for memory without rows.
    pub const HEIGHT: u64 = 2;
    /// Bytes from row to row.
    pub const PITCH: u64 = 3;
    /// `CUarray_format`.
    pub const FORMAT: u64 = 4;
    /// Channels of a texel.
    pub const CHANNELS: u64 = 5;
    /// See [`super::flags`].
    pub const FLAGS: u64 = 6;
    /// How many there are.
    pub const COUNT: usize = 7;
}

/// Bits of a description's flags.
pub(crate) mod flags {
    /// Coordinates from 0 to 1.
    pub const NORMALIZED: u64 = 1;
    /// Integers stay integers.
    pub const INTEGERS: u64 = 2;
    /// Linear filtering.
    pub const LINEAR: u64 = 4;
    /// Address mode of x, and of y four bits further.
    pub const MODE: u32 = 4;
}

/// What a lane reads a texel from.
struct Texture {
    address: u64,
    width: u64,
    height: u64,
    pitch: u64,
    format: u64,
    channels: u64,
    flags: u64,
}

/// One texel: the bits of four channels.
type Texel = [u32; 4];

impl Texture {
    fn read(
        warp: &mut Warp,
        context: &mut Context<'_>,
        lane: usize,
        handle: u64,
    ) -> Result<Texture, AccessFault> {
        let mut list = [0u64; words::COUNT];
        for (index, word) in list.iter_mut().enumerate() {
            *word = load_one(
                warp,
                context,
                SpaceTag::Global,
                lane,
                handle.wrapping_add(8 * index as u64),
            )?;
        }
        let word = |index: u64| list[index as usize];
        Ok(Texture {
            address: word(words::ADDRESS),
            width: word(words::WIDTH),
            height: word(words::HEIGHT),
            pitch: word(words::PITCH),
            format: word(words::FORMAT),
            channels: word(words::CHANNELS),
            flags: word(words::FLAGS),
        })
    }

    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// The texel that an index means after its address mode; `None` for the
    /// border, which is zero.
    fn place(&self, axis: u32, index: i64, size: u64) -> Option<u64> {
        let size = i64::try_from(size.max(1)).unwrap_or(i64::MAX);
        if (0..size).contains(&index) {
            return Some(index as u64);
        }
        let normalized = self.has(flags::NORMALIZED);
        let index = match self.flags >> (flags::MODE + 4 * axis) & 0xf {
            0 if normalized => index.rem_euclid(size),
            2 if normalized => {
                let folded = index.rem_euclid(2 * size);
                folded.min(2 * size - 1 - folded)
            }
            3 => return None,
            // Wrapping and mirroring are for normalized coordinates only.
            _ => index.clamp(0, size - 1),
        };
        Some(index as u64)
    }

    /// The texel's bits as the instruction gives them.
    fn texel(
        &self,
        warp: &mut Warp,
        context: &mut Context<'_>,
        lane: usize,
        x: u64,
        y: u64,
    ) -> Result<Texel, AccessFault> {
        let bytes = match self.format {
            1 | 8 => 1,
            2 | 9 | 16 => 2,
            _ => 4,
        };
        let first = self
            .address
            .wrapping_add(y.wrapping_mul(self.pitch))
            .wrapping_add(x.wrapping_mul(bytes * self.channels));
        let mut texel = [0; 4];
        for (channel, value) in texel.iter_mut().enumerate().take(self.channels as usize) {
            let at = first.wrapping_add(bytes * channel as u64);
            let space = SpaceTag::Global;
            let raw = match bytes {
                1 => u32::from(load_one::<u8>(warp, context, space, lane, at)?),
                2 => u32::from(load_one::<u16>(warp, context, space, lane, at)?),
                _ => load_one::<u32>(warp, context, space, lane, at)?,
            };
            *value = self.convert(raw);
        }
        Ok(texel)
    }

    /// A channel as it is stored, to a register: integers are extended, or
    /// become fractions of their range; floats become single precision.
    fn convert(&self, raw: u32) -> u32 {
        let fraction = !self.has(flags::INTEGERS);
        let signed = |value: i32, range: f32| {
            if fraction {
                (value as f32 / range).max(-1.0).to_bits()
            } else {
                value as u32
            }
        };
        let unsigned = |range: f32| {
            if fraction {
                (raw as f32 / range).to_bits()
            } else {
                raw
            }
        };
        match self.format {
            1 => unsigned(255.0),
            2 => unsigned(65535.0),
            8 => signed(i32::from(raw as u8 as i8), 127.0),
            9 => signed(i32::from(raw as u16 as i16), 32767.0),
            16 => half::f16::from_bits(raw as u16).to_f32().to_bits(),
            // 32-bit integers have no fractions.
            _ => raw,
        }
    }

    /// A fetch by index: what is outside reads zero.
    fn fetch(
        &self,
        warp: &mut Warp,
        context: &mut Context<'_>,
        lane: usize,
        at: [i32; 2],
    ) -> Result<Texel, AccessFault> {
        let inside = |index: i32, size: u64| u64::try_from(index).is_ok_and(|index| index < size);
        if inside(at[0], self.width) && inside(at[1], self.height.max(1)) {
            self.texel(warp, context, lane, at[0] as u64, at[1] as u64)
        } else {
            Ok([0; 4])
        }
    }

    fn sample(
        &self,
        warp: &mut Warp,
        context: &mut Context<'_>,
        lane: usize,
        at: [f32; 2],
    ) -> Result<Texel, AccessFault> {
        let sizes = [self.width, self.height.max(1)];
        let scaled: [f32; 2] = std::array::from_fn(|axis| {
            if self.has(flags::NORMALIZED) {
                at[axis] * sizes[axis] as f32
            } else {
                at[axis]
            }
        });
        let mut nearest =
            |x: i64, y: i64| match (self.place(0, x, sizes[0]), self.place(1, y, sizes[1])) {
                (Some(x), Some(y)) => self.texel(warp, context, lane, x, y),
                _ => Ok([0; 4]),
            };
        if !self.has(flags::LINEAR) {
            return nearest(scaled[0].floor() as i64, scaled[1].floor() as i64);
        }
        // The lower neighbour, and how much of the upper one, in 1/256.
        let split = |value: f32| {
            let value = value - 0.5;
            let low = value.floor();
            (low as i64, ((value - low) * 256.0).round() / 256.0)
        };
        let (x, a) = split(scaled[0]);
        let (y, b) = if self.height == 0 {
            (0, 0.0)
        } else {
            split(scaled[1])
        };
        let mut sum = [0f32; 4];
        for (dx, dy, weight) in [
            (0, 0, (1.0 - a) * (1.0 - b)),
            (1, 0, a * (1.0 - b)),
            (0, 1, (1.0 - a) * b),
            (1, 1, a * b),
        ] {
            // What counts for nothing is not read: it may lie outside.
            if weight == 0.0 {
                continue;
            }
            let texel = nearest(x + dx, y + dy)?;
            for (sum, bits) in sum.iter_mut().zip(texel) {
                *sum += weight * f32::from_bits(bits);
            }
        }
        Ok(sum.map(f32::to_bits))
    }
}

/// `d` lists destinations, `a` holds the object, `b` and `c` the coordinates;
/// `imm` is 1 for coordinates that are indices.
fn tex(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let handles = *warp.row::<u64>(context, inst.a);
    let x = *warp.row::<u32>(context, inst.b);
    let y = if inst.c == NONE {
        [0; 32]
    } else {
        *warp.row::<u32>(context, inst.c)
    };
    for lane in lanes(mask) {
        let texel = Texture::read(warp, context, lane, handles[lane]).and_then(|texture| {
            if inst.imm == 1 {
                texture.fetch(warp, context, lane, [x[lane] as i32, y[lane] as i32])
            } else {
                texture.sample(
                    warp,
                    context,
                    lane,
                    [f32::from_bits(x[lane]), f32::from_bits(y[lane])],
                )
            }
        });
        let texel = match texel {
            Ok(texel) => texel,
            Err(fault) => return context.fail_access(warp, lane, fault, "texture"),
        };
        let program = context.program;
        for (slot, value) in program.lists[inst.d as usize].iter().zip(texel) {
            if *slot != NONE {
                warp.row_mut::<u32>(*slot)[lane] = value;
            }
        }
    }
    Flow::Next
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.only(&["1d", "2d", "v4"])?;
    x.count(2, 2)?;
    let [result, coordinate] = x.types[..] else {
        return malformed("tex without its two types");
    };
    if result.bytes() != 4 || !matches!(coordinate, Type::S32 | Type::F32) {
        return unsupported(format!("tex of {result:?} by {coordinate:?}"));
    }
    let OperandKind::Address(address) = &x.op(1)?.kind else {
        return malformed("tex without an address");
    };
    let handle = d.address(x.op(1)?, None)?;
    if handle.narrow || handle.offset != 0 || handle.space != SpaceTag::Generic {
        return unsupported("texture reference");
    }
    let given: &'a [_] = match &address.coordinates[..] {
        [one] => Decoder::vector(one),
        _ => return unsupported("texture with a sampler of its own"),
    };
    let wanted = if x.has("2d") { 2 } else { 1 };
    if given.len() < wanted {
        return malformed("tex with too few coordinates");
    }
    let first = d.src(&given[0], Class::B32)?;
    let second = if wanted == 2 {
        d.src(&given[1], Class::B32)?
    } else {
        NONE
    };
    let slots = Decoder::vector(x.op(0)?)
        .iter()
        .map(|operand| d.dst(operand, Class::B32))
        .collect::<Result<Vec<u32>, Problem>>()?;
    let list = d.list(slots);
    d.emit(tex, |i| {
        (i.d, i.a, i.b, i.c) = (list, handle.slot, first, second);
        i.imm = u64::from(coordinate == Type::S32);
    });
    Ok(())
}
