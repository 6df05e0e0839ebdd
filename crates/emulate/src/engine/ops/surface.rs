//! `suld.b` and `sust.b` on surface objects (PTX ISA 9.7.11). The first
//! coordinate counts bytes.

use super::image::Image;
use super::texture::object;
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, malformed, unsupported};
use crate::engine::fault::FaultKind;
use crate::engine::inst::{Class, Flow, Inst, NONE};
use crate::engine::lanes::lanes;
use crate::engine::warp::Warp;
use crate::mapping::AccessFault;
use ptx::{Mnemonic, Modifier};

/// What happens outside of the surface.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    /// The kernel fails.
    Trap,
    /// The nearest element is used.
    Clamp,
    /// Reads give zero; writes do nothing.
    Zero,
}

/// How an instruction finds its element; in `imm`.
#[derive(Clone, Copy)]
struct Form {
    /// Rows are addressed.
    rows: bool,
    /// The first coordinate is a layer.
    layered: bool,
    outside: Outside,
    /// Bytes of a register's part.
    bytes: u64,
}

impl Form {
    fn pack(self) -> u64 {
        u64::from(self.rows)
            | u64::from(self.layered) << 1
            | (self.outside as u64) << 2
            | self.bytes << 4
    }

    fn unpack(imm: u64) -> Form {
        Form {
            rows: imm & 1 != 0,
            layered: imm & 2 != 0,
            outside: match imm >> 2 & 3 {
                0 => Outside::Trap,
                1 => Outside::Clamp,
                _ => Outside::Zero,
            },
            bytes: imm >> 4,
        }
    }

    /// Byte, row and slice of an element of `size` bytes; `None` if it is
    /// outside.
    fn place(self, image: &Image, coordinates: &[u32], size: u64) -> Option<[u64; 3]> {
        let [width, height, depth] = image.levels[0].sizes();
        let row = width * image.texel_bytes();
        let signed = |index: usize| i64::from(coordinates.get(index).copied().unwrap_or(0) as i32);
        let at = match (self.layered, self.rows) {
            (true, true) => [signed(1), signed(2), signed(0)],
            (true, false) => [signed(1), 0, signed(0)],
            (false, _) => [signed(0), signed(1), signed(2)],
        };
        // The last element of a row starts `size` bytes before its end.
        let limits = [row.saturating_sub(size), height - 1, depth - 1];
        let mut place = [0; 3];
        for ((place, at), limit) in place.iter_mut().zip(at).zip(limits) {
            *place = match u64::try_from(at) {
                Ok(at) if at <= limit => at,
                _ if self.outside != Outside::Clamp => return None,
                Ok(_) => limit,
                Err(_) => 0,
            };
        }
        // Elements are aligned to their size.
        place[0] -= place[0] % size.max(1);
        Some(place)
    }
}

/// One lane's part of an instruction.
fn move_lane(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    lane: usize,
    image: &Image,
    place: [u64; 3],
) -> Result<(), AccessFault> {
    let (form, program) = (Form::unpack(inst.imm), context.program);
    let store = inst.side != 0;
    for (index, &slot) in program.lists[inst.d as usize].iter().enumerate() {
        if slot == NONE {
            continue;
        }
        let at = [place[0] + index as u64 * form.bytes, place[1], place[2]];
        macro_rules! part {
            ($memory:ty, $register:ty) => {
                if store {
                    let value = warp.row::<$register>(context, slot)[lane] as $memory;
                    image.surface_store(warp, context, lane, at, value)?;
                } else {
                    let value: $memory = image.surface_load(warp, context, lane, at)?;
                    warp.row_mut::<$register>(slot)[lane] = value as $register;
                }
            };
        }
        match form.bytes {
            1 => part!(u8, u16),
            2 => part!(u16, u16),
            4 => part!(u32, u32),
            _ => part!(u64, u64),
        }
    }
    Ok(())
}

/// Reads zero, outside of the surface.
fn zero(warp: &mut Warp, context: &Context<'_>, inst: &Inst, lane: usize) {
    for &slot in &context.program.lists[inst.d as usize] {
        if slot == NONE {
            continue;
        }
        match Form::unpack(inst.imm).bytes {
            1 | 2 => warp.row_mut::<u16>(slot)[lane] = 0,
            4 => warp.row_mut::<u32>(slot)[lane] = 0,
            _ => warp.row_mut::<u64>(slot)[lane] = 0,
        }
    }
}

/// `d` lists the registers, `a` holds the object, `b` lists the coordinates;
/// `imm` is the [`Form`], `side` 1 for stores.
fn surface(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let program = context.program;
    let form = Form::unpack(inst.imm);
    let objects = *warp.row::<u64>(context, inst.a);
    let coordinates: Vec<[u32; 32]> = program.lists[inst.b as usize]
        .iter()
        .map(|slot| *warp.row::<u32>(context, *slot))
        .collect();
    let size = form.bytes * program.lists[inst.d as usize].len() as u64;
    for lane in lanes(mask) {
        let object = objects[lane];
        let image = match Image::of(warp, context, lane, object) {
            Ok(image) => image,
            Err(fault) => return context.fail_access(warp, lane, fault, "surface"),
        };
        let mut at = [0; 4];
        for (at, row) in at.iter_mut().zip(&coordinates) {
            *at = row[lane];
        }
        let at = &at[..coordinates.len().min(4)];
        match form.place(&image, at, size) {
            Some(place) => {
                if let Err(fault) = move_lane(warp, context, inst, lane, &image, place) {
                    return context.fail_access(warp, lane, fault, "surface");
                }
            }
            None if form.outside == Outside::Trap => {
                let at: Vec<i32> = at.iter().map(|value| *value as i32).collect();
                return context.fail(
                    warp,
                    1 << lane,
                    FaultKind::IllegalAddress,
                    object,
                    format!("access of {size} bytes outside of the surface, at {at:?}"),
                );
            }
            None if inst.side == 0 => zero(warp, context, inst, lane),
            None => {}
        }
    }
    Flow::Next
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.only(&[
        Modifier::B,
        Modifier::D1,
        Modifier::D2,
        Modifier::D3,
        Modifier::A1d,
        Modifier::A2d,
        Modifier::V2,
        Modifier::V4,
        Modifier::Trap,
        Modifier::Clamp,
        Modifier::Zero,
        Modifier::Ca,
        Modifier::Cg,
        Modifier::Cs,
        Modifier::Cv,
        Modifier::Wb,
        Modifier::Wt,
    ])?;
    x.count(2, 2)?;
    if !x.has(Modifier::B) {
        return unsupported("formatted surface access");
    }
    let layered = x.has(Modifier::A1d) || x.has(Modifier::A2d);
    let rows = !x.has(Modifier::D1) && !x.has(Modifier::A1d);
    let wanted = match () {
        () if x.has(Modifier::D1) => 1,
        () if x.has(Modifier::D2) || x.has(Modifier::A1d) => 2,
        () if x.has(Modifier::D3) || x.has(Modifier::A2d) => 3,
        () => return malformed("surface access without a geometry"),
    };
    let store = x.mnemonic == Mnemonic::Sust;
    let ty = x.ty()?;
    let class = match Class::of(ty) {
        Some(class @ (Class::B16 | Class::B32 | Class::B64)) => class,
        _ => return unsupported(format!("surface access of {ty:?}")),
    };
    let (surface_at, registers) = if store { (0, 1) } else { (1, 0) };
    let (handle, coordinates) = object(d, x.op(surface_at)?, wanted, "surface")?;
    let slots = Decoder::vector(x.op(registers)?)
        .iter()
        .map(|operand| {
            if store {
                d.src(operand, class)
            } else {
                d.dst(operand, class)
            }
        })
        .collect::<Result<Vec<u32>, Problem>>()?;
    let form = Form {
        rows,
        layered,
        outside: if x.has(Modifier::Clamp) {
            Outside::Clamp
        } else if x.has(Modifier::Zero) {
            Outside::Zero
        } else {
            Outside::Trap
        },
        bytes: u64::from(ty.bytes()),
    };
    let (list, coordinates) = (d.list(slots), d.list(coordinates));
    d.emit(surface, |i| {
        (i.d, i.a, i.b, i.imm) = (list, handle, coordinates, form.pack());
        i.side = u32::from(store);
    });
    Ok(())
}
