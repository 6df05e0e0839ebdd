//! `tex` and `tld4` on texture objects (PTX ISA 9.7.10).
//!
//! Filtering and address modes follow the CUDA programming guide, "Texture
//! Fetching": weights of eight fractional bits. Cubemaps are filtered within
//! a face.

use super::image::{Image, Level, Texel, flags};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, SpaceTag, malformed, unsupported};
use crate::engine::inst::{Class, Flow, Inst, NONE};
use crate::engine::lanes::lanes;
use crate::engine::warp::Warp;
use crate::mapping::AccessFault;
use ptx::{Mnemonic, Modifier, OperandKind, Type};

/// Bits of the `imm` of `tex`: 2 for the number of filtered axes, then these.
mod form {
    /// Coordinates are indices.
    pub const INDEX: u64 = 4;
    /// The first coordinate is a layer.
    pub const LAYERED: u64 = 8;
    /// The coordinates are a direction.
    pub const CUBE: u64 = 16;
    /// The level is the last source.
    pub const LEVEL: u64 = 32;
    /// The level follows from two gradients.
    pub const GRADIENT: u64 = 64;
    /// Channel of `tld4`, and whether it is one.
    pub const GATHER: u64 = 128;
    pub const CHANNEL: u32 = 8;
}

/// Where a lane fetches: coordinates of the filtered axes, and the slice of
/// the others.
struct Spot {
    axes: usize,
    at: [f32; 3],
    /// Layer, face, or both; clamped to the existing ones when it is used.
    slice: i64,
}

impl Spot {
    /// From the coordinates of an instruction.
    fn of(form: u64, coordinates: &[u32]) -> Spot {
        let axes = (form & 3) as usize;
        let (layer, rest) = if form & form::LAYERED != 0 {
            (i64::from(coordinates[0] as i32), &coordinates[1..])
        } else {
            (0, coordinates)
        };
        let mut at = [0.0; 3];
        for (at, bits) in at.iter_mut().zip(rest) {
            *at = f32::from_bits(*bits);
        }
        if form & form::CUBE != 0 {
            let (face, s, t) = face(at);
            return Spot {
                axes: 2,
                at: [s, t, 0.0],
                slice: layer.max(0) * 6 + face,
            };
        }
        Spot {
            axes,
            at,
            slice: layer,
        }
    }
}

/// The face of a cube that a direction meets, and where (CUDA programming
/// guide, "Cubemap Textures").
fn face([x, y, z]: [f32; 3]) -> (i64, f32, f32) {
    let [ax, ay, az] = [x.abs(), y.abs(), z.abs()];
    let (face, m, s, t) = if ax >= ay && ax >= az {
        if x >= 0.0 {
            (0, ax, -z, -y)
        } else {
            (1, ax, z, -y)
        }
    } else if ay >= az {
        if y >= 0.0 {
            (2, ay, x, z)
        } else {
            (3, ay, x, -z)
        }
    } else if z >= 0.0 {
        (4, az, x, -y)
    } else {
        (5, az, -x, -y)
    };
    (face, (s / m + 1.0) / 2.0, (t / m + 1.0) / 2.0)
}

/// A fetch in progress: whose, and through what.
struct Fetch<'f, 'c, 'p> {
    warp: &'f mut Warp,
    context: &'f mut Context<'c>,
    lane: usize,
    image: &'p Image,
    form: u64,
}

impl Fetch<'_, '_, '_> {
    /// The texel that an index means after its address mode; `None` for the
    /// border.
    fn place(&self, axis: usize, index: i64, size: u64) -> Option<u64> {
        let size = i64::try_from(size.max(1)).unwrap_or(i64::MAX);
        if (0..size).contains(&index) {
            return Some(index as u64);
        }
        let image = self.image;
        let normalized = image.has(flags::NORMALIZED);
        let mode = image.flags >> (flags::MODE + 4 * axis as u32) & 0xf;
        let index = match mode {
            // A face has nothing beyond its edge.
            _ if self.form & form::CUBE != 0 => index.clamp(0, size - 1),
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

    /// The texel at indices of the filtered axes.
    fn texel(&mut self, level: &Level, spot: &Spot, at: [i64; 3]) -> Result<Texel, AccessFault> {
        let sizes = level.sizes();
        let mut place = [0; 3];
        for axis in 0..spot.axes {
            match self.place(axis, at[axis], sizes[axis]) {
                Some(index) => place[axis] = index,
                None => return Ok(self.image.border()),
            }
        }
        if spot.axes < 3 {
            // Layers and faces are slices.
            let last = i64::try_from(sizes[2] - 1).unwrap_or(i64::MAX);
            place[2] = spot.slice.clamp(0, last) as u64;
        }
        self.image
            .texel(self.warp, self.context, self.lane, level, place)
    }

    /// A fetch by index: what is outside reads zero.
    fn by_index(&mut self, coordinates: &[u32]) -> Result<Texel, AccessFault> {
        let level = self.image.levels[0];
        let layered = self.form & form::LAYERED != 0;
        let axes = (self.form & 3) as usize;
        let (layer, rest) = if layered {
            (coordinates[0], &coordinates[1..])
        } else {
            (0, coordinates)
        };
        let sizes = level.sizes();
        let mut at = [0, 0, u64::from(layer)];
        for (at, index) in at.iter_mut().zip(rest).take(axes) {
            *at = i64::from(*index as i32) as u64;
        }
        if at.iter().zip(sizes).any(|(at, size)| *at >= size) {
            return Ok([0; 4]);
        }
        self.image
            .texel(self.warp, self.context, self.lane, &level, at)
    }

    /// Lower neighbours and how much of the upper ones, in 1/256, by axis.
    fn split(&self, level: &Level, spot: &Spot) -> ([i64; 3], [f32; 3]) {
        let (mut low, mut part) = ([0; 3], [0.0; 3]);
        let at = self.scaled(level, spot);
        for axis in 0..spot.axes {
            let value = at[axis] - 0.5;
            low[axis] = value.floor() as i64;
            part[axis] = ((value - value.floor()) * 256.0).round() / 256.0;
        }
        (low, part)
    }

    /// Coordinates in texels. Those of a cube go from 0 to 1 always.
    fn scaled(&self, level: &Level, spot: &Spot) -> [f32; 3] {
        let sizes = level.sizes();
        let normalized = self.image.has(flags::NORMALIZED) || self.form & form::CUBE != 0;
        std::array::from_fn(|axis| {
            if normalized {
                spot.at[axis] * sizes[axis] as f32
            } else {
                spot.at[axis]
            }
        })
    }

    fn sample(&mut self, level: &Level, spot: &Spot) -> Result<Texel, AccessFault> {
        if !self.image.has(flags::LINEAR) {
            let at = self.scaled(level, spot).map(|value| value.floor() as i64);
            return self.texel(level, spot, at);
        }
        let (low, part) = self.split(level, spot);
        let mut sum = [0f32; 4];
        for corner in 0..1usize << spot.axes {
            let upper = |axis: usize| corner >> axis & 1 != 0;
            let weight: f32 = (0..spot.axes)
                .map(|axis| {
                    if upper(axis) {
                        part[axis]
                    } else {
                        1.0 - part[axis]
                    }
                })
                .product();
            // What counts for nothing is not read: it may lie outside.
            if weight == 0.0 {
                continue;
            }
            let at = std::array::from_fn(|axis| low[axis] + i64::from(axis < 3 && upper(axis)));
            let texel = self.texel(level, spot, at)?;
            for (sum, bits) in sum.iter_mut().zip(texel) {
                *sum += weight * f32::from_bits(bits);
            }
        }
        Ok(sum.map(f32::to_bits))
    }

    /// `tld4`: a channel of the four texels that linear filtering reads, from
    /// the lower left one against the clock's hands.
    fn gather(&mut self, spot: &Spot) -> Result<Texel, AccessFault> {
        let level = self.image.levels[0];
        let (low, _) = self.split(&level, spot);
        let channel = (self.form >> form::CHANNEL & 3) as usize;
        let mut found = [0; 4];
        for (found, [dx, dy]) in found.iter_mut().zip([[0, 1], [1, 1], [1, 0], [0, 0]]) {
            *found = self.texel(&level, spot, [low[0] + dx, low[1] + dy, 0])?[channel];
        }
        Ok(found)
    }

    /// At a level of detail.
    fn at_level(&mut self, spot: &Spot, detail: f32) -> Result<Texel, AccessFault> {
        let image = self.image;
        let last = image.levels.len() - 1;
        let [least, most] = image.clamp;
        // A range that is empty restricts nothing.
        let detail = detail + image.bias;
        let detail = if least <= most {
            detail.clamp(least, most)
        } else {
            detail
        };
        let detail = detail.clamp(0.0, last as f32);
        if !image.has(flags::LINEAR_LEVELS) || !image.gives_floats() {
            let nearest = (detail + 0.5).floor() as usize;
            return self.sample(&image.levels[nearest.min(last)], spot);
        }
        let low = detail.floor() as usize;
        let part = ((detail - detail.floor()) * 256.0).round() / 256.0;
        let near = self.sample(&image.levels[low], spot)?;
        if part == 0.0 || low == last {
            return Ok(near);
        }
        let far = self.sample(&image.levels[low + 1], spot)?;
        Ok(std::array::from_fn(|channel| {
            let (near, far) = (f32::from_bits(near[channel]), f32::from_bits(far[channel]));
            (near * (1.0 - part) + far * part).to_bits()
        }))
    }

    /// The level of detail of gradients: the longer one, in texels of level 0.
    fn detail(&self, gradients: &[u32]) -> f32 {
        let sizes = self.image.levels[0].sizes();
        let normalized = self.image.has(flags::NORMALIZED);
        let half = gradients.len() / 2;
        let length = |list: &[u32]| {
            let squares = list.iter().enumerate().map(|(axis, bits)| {
                let scale = if normalized {
                    sizes[axis.min(2)] as f32
                } else {
                    1.0
                };
                (f32::from_bits(*bits) * scale).powi(2)
            });
            squares.sum::<f32>().sqrt()
        };
        let longest = length(&gradients[..half]).max(length(&gradients[half..]));
        // No gradient means the finest level.
        longest.max(f32::MIN_POSITIVE).log2()
    }

    fn run(&mut self, coordinates: &[u32], extra: &[u32]) -> Result<Texel, AccessFault> {
        if self.form & form::INDEX != 0 {
            return self.by_index(coordinates);
        }
        let spot = Spot::of(self.form, coordinates);
        if self.form & form::GATHER != 0 {
            return self.gather(&spot);
        }
        let image = self.image;
        match () {
            () if self.form & form::LEVEL != 0 => self.at_level(&spot, f32::from_bits(extra[0])),
            () if self.form & form::GRADIENT != 0 => {
                let detail = self.detail(extra);
                self.at_level(&spot, detail)
            }
            () => self.sample(&image.levels[0], &spot),
        }
    }
}

/// `d` lists destinations, `a` holds the object, `b` lists the coordinates and
/// `c` level or gradients; `imm` is the [`form`].
fn tex(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let program = context.program;
    let objects = *warp.row::<u64>(context, inst.a);
    let rows = |warp: &Warp, context: &Context<'_>, list: u32| -> Vec<[u32; 32]> {
        let slots: &[u32] = match list {
            NONE => &[],
            list => &program.lists[list as usize],
        };
        slots
            .iter()
            .map(|slot| *warp.row::<u32>(context, *slot))
            .collect()
    };
    let (coordinates, extra) = (rows(warp, context, inst.b), rows(warp, context, inst.c));
    for lane in lanes(mask) {
        let of = |rows: &[[u32; 32]]| -> [u32; 8] {
            let mut values = [0; 8];
            for (value, row) in values.iter_mut().zip(rows) {
                *value = row[lane];
            }
            values
        };
        let (at, more) = (of(&coordinates), of(&extra));
        let object = objects[lane];
        let image = match Image::of(warp, context, lane, object) {
            Ok(image) => image,
            Err(fault) => return context.fail_access(warp, lane, fault, "texture"),
        };
        let mut fetch = Fetch {
            warp: &mut *warp,
            context: &mut *context,
            lane,
            image: &image,
            form: inst.imm,
        };
        let texel = match fetch.run(&at[..coordinates.len()], &more[..extra.len()]) {
            Ok(texel) => texel,
            Err(fault) => return context.fail_access(warp, lane, fault, "texture"),
        };
        for (slot, value) in program.lists[inst.d as usize].iter().zip(texel) {
            if *slot != NONE {
                warp.row_mut::<u32>(*slot)[lane] = value;
            }
        }
    }
    Flow::Next
}

/// Axes that are filtered, coordinates that are needed, and the form's bits.
fn geometry(x: &Ins<'_>) -> Result<(u64, usize, u64), Problem> {
    const GEOMETRIES: [(Modifier, u64, usize, u64); 7] = [
        (Modifier::D1, 1, 1, 0),
        (Modifier::D2, 2, 2, 0),
        (Modifier::D3, 3, 3, 0),
        (Modifier::A1d, 1, 2, form::LAYERED),
        (Modifier::A2d, 2, 3, form::LAYERED),
        (Modifier::Cube, 2, 3, form::CUBE),
        (Modifier::Acube, 2, 4, form::CUBE | form::LAYERED),
    ];
    match GEOMETRIES.iter().find(|(name, ..)| x.has(*name)) {
        Some((_, axes, wanted, bits)) => Ok((*axes, *wanted, *bits)),
        None => unsupported("texture of this geometry"),
    }
}

/// The object and the coordinates of `[object, {…}]`.
pub(super) fn object<'a>(
    d: &mut Decoder<'a>,
    operand: &'a ptx::Operand<'a>,
    wanted: usize,
    what: &str,
) -> Result<(u32, Vec<u32>), Problem> {
    let OperandKind::Address(address) = &operand.kind else {
        return malformed(format!("{what} without an address"));
    };
    let handle = d.address(operand, None)?;
    if handle.narrow || handle.offset != 0 || handle.space != SpaceTag::Generic {
        return unsupported(format!("{what} reference"));
    }
    let given = match &address.coordinates[..] {
        [one] => Decoder::vector(one),
        _ => return unsupported(format!("{what} with a sampler of its own")),
    };
    if given.len() < wanted {
        return malformed(format!("{what} with too few coordinates"));
    }
    let slots = given[..wanted]
        .iter()
        .map(|operand| d.src(operand, Class::B32))
        .collect::<Result<Vec<u32>, Problem>>()?;
    Ok((handle.slot, slots))
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.only(&[
        Modifier::D1,
        Modifier::D2,
        Modifier::D3,
        Modifier::A1d,
        Modifier::A2d,
        Modifier::Cube,
        Modifier::Acube,
        Modifier::V4,
        Modifier::Level,
        Modifier::Grad,
        Modifier::Base,
        Modifier::R,
        Modifier::G,
        Modifier::B,
        Modifier::A,
    ])?;
    x.count(2, 4)?;
    let [result, coordinate] = x.types[..] else {
        return malformed("tex without its two types");
    };
    if result.bytes() != 4 || !matches!(coordinate, Type::S32 | Type::F32) {
        return unsupported(format!("tex of {result:?} by {coordinate:?}"));
    }
    let (axes, wanted, mut bits) = geometry(x)?;
    bits |= axes;
    if coordinate == Type::S32 {
        bits |= form::INDEX;
    }
    if x.mnemonic == Mnemonic::Tld4 {
        let channel = [Modifier::R, Modifier::G, Modifier::B, Modifier::A]
            .iter()
            .position(|name| x.has(*name));
        bits |= form::GATHER | (channel.unwrap_or(0) as u64) << form::CHANNEL;
    }
    let (handle, coordinates) = object(d, x.op(1)?, wanted, "texture")?;
    let extra: Vec<&'a ptx::Operand<'a>> = if x.has(Modifier::Level) {
        bits |= form::LEVEL;
        vec![x.op(2)?]
    } else if x.has(Modifier::Grad) {
        bits |= form::GRADIENT;
        let axes = if x.has(Modifier::Cube) || x.has(Modifier::Acube) {
            3
        } else {
            axes as usize
        };
        let (dx, dy) = (Decoder::vector(x.op(2)?), Decoder::vector(x.op(3)?));
        if dx.len() < axes || dy.len() < axes {
            return malformed("tex.grad with too few gradients");
        }
        dx[..axes].iter().chain(&dy[..axes]).collect()
    } else if x.ops.len() > 2 {
        return unsupported("tex with offsets or a depth to compare with");
    } else {
        Vec::new()
    };
    let extra = extra
        .into_iter()
        .map(|operand| d.src(operand, Class::B32))
        .collect::<Result<Vec<u32>, Problem>>()?;
    let slots = Decoder::vector(x.op(0)?)
        .iter()
        .map(|operand| d.dst(operand, Class::B32))
        .collect::<Result<Vec<u32>, Problem>>()?;
    let (list, coordinates) = (d.list(slots), d.list(coordinates));
    let extra = if extra.is_empty() {
        NONE
    } else {
        d.list(extra)
    };
    d.emit(tex, |i| {
        (i.d, i.a, i.b, i.c, i.imm) = (list, handle, coordinates, extra, bits);
    });
    Ok(())
}
