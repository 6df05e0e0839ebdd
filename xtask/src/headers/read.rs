//! Reads headers with libclang, which [`crate::setup::libclang`] installs.
//!
//! A header that does not compile is an error, and so is a type that Rust
//! declarations cannot express here, such as a bit field. Nothing is skipped.

use super::{Field, Function, Header, Item, Macro, Names, Record, Signature, Type};
use crate::command::{command, output};
use crate::setup;
use anyhow::{Context, Result, bail, ensure};
use clang::diagnostic::Severity;
use clang::{Clang, Entity, EntityKind, Index, TypeKind, Unsaved};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Headers, and how they are compiled.
pub struct Source<'a> {
    /// A C program that includes them.
    pub program: &'a str,
    /// Their folder. What they include from elsewhere is not read.
    pub include: &'a Path,
    /// Options of the compiler.
    pub options: &'a [&'a str],
    /// Headers that are included but not installed: name and text.
    pub stubs: &'a [(&'a str, &'a str)],
}

/// Where the program and the stubs lie for libclang. They are passed to it in
/// memory, and never written.
const FOLDER: &str = "/ringfence-headers";

/// The prefix of the enumerators that evaluate macros.
const VALUE: &str = "ringfence_value_";

impl Source<'_> {
    /// All declarations and macros of the headers.
    ///
    /// # Errors
    ///
    /// libclang cannot be loaded, a header does not compile, or a declaration
    /// is not supported.
    pub fn read(&self) -> Result<Header> {
        self.compile(self.program, |unit| {
            let mut header = Header::default();
            for entity in unit.get_children() {
                if self.contains(entity) {
                    declaration(entity, &mut header)
                        .with_context(|| format!("in the declaration {entity:?}"))?;
                }
            }
            let folder = self.include.display();
            ensure!(!header.items.is_empty(), "no declaration below {folder}");
            Ok(header)
        })
    }

    /// The values of macros, by name.
    ///
    /// # Errors
    ///
    /// As [`Source::read`], or a macro is not a constant integer.
    pub fn values<'m>(
        &self,
        macros: impl IntoIterator<Item = &'m Macro>,
    ) -> Result<BTreeMap<String, i64>> {
        let mut program = self.program.to_owned();
        for Macro { name, .. } in macros {
            let _ = writeln!(program, "enum {{ {VALUE}{name} = (long long)({name}) }};");
        }
        self.compile(&program, |unit| {
            let mut values = BTreeMap::new();
            for entity in unit.get_children() {
                if entity.get_kind() == EntityKind::EnumDecl {
                    for (name, value) in enumerators(entity)? {
                        if let Some(name) = name.strip_prefix(VALUE) {
                            values.insert(name.to_owned(), value);
                        }
                    }
                }
            }
            Ok(values)
        })
    }

    fn compile<T>(&self, program: &str, then: impl FnOnce(Entity) -> Result<T>) -> Result<T> {
        setup::libclang()?;
        let clang = Clang::new().map_err(anyhow::Error::msg)?;
        let version = clang::get_version();
        ensure!(
            version.ends_with(setup::LIBCLANG_VERSION),
            "libclang {} is needed, and this is {version}: run this step by `cargo xtask`, which \
             sets LIBCLANG_PATH",
            setup::LIBCLANG_VERSION
        );
        let folder = Path::new(FOLDER);
        let main = folder.join("main.c");
        let mut files = vec![Unsaved::new(&main, program)];
        for (name, text) in self.stubs {
            files.push(Unsaved::new(folder.join(name), text));
        }
        // The package of libclang has no stddef.h and the like: the C
        // compiler's are used.
        let builtin = output(&mut command("cc", ["-print-file-name=include"]))?;
        let mut arguments = vec![
            format!("-I{}", self.include.display()),
            format!("-I{FOLDER}"),
            format!("-isystem{}", builtin.trim()),
        ];
        arguments.extend(self.options.iter().map(|option| (*option).to_owned()));
        let index = Index::new(&clang, false, false);
        let unit = index
            .parser(&main)
            .arguments(&arguments)
            .unsaved(&files)
            .detailed_preprocessing_record(true)
            .parse()?;
        for diagnostic in unit.get_diagnostics() {
            ensure!(
                diagnostic.get_severity() < Severity::Error,
                "a header does not compile: {diagnostic}"
            );
        }
        then(unit.get_entity())
    }

    /// Whether it stands in one of the headers, not in the program or in a
    /// header of the system.
    fn contains(&self, entity: Entity) -> bool {
        path(entity).is_some_and(|path| path.starts_with(self.include))
    }
}

fn path(entity: Entity) -> Option<PathBuf> {
    let location = entity.get_location()?.get_expansion_location();
    Some(location.file?.get_path())
}

fn declaration(entity: Entity, header: &mut Header) -> Result<()> {
    let item = match entity.get_kind() {
        EntityKind::MacroDefinition => {
            header.macros.extend(macro_without_parameters(entity));
            return Ok(());
        }
        EntityKind::EnumDecl if defines_type(entity) => Item::Enum {
            names: names(entity),
            values: enumerators(entity)?,
        },
        _ if defines_type(entity) => Item::Record {
            names: names(entity),
            record: record(entity)?,
        },
        EntityKind::TypedefDecl => {
            let name = name(entity)?;
            // What a typedef defines stands before it as an item of its own.
            let inside = entity.get_children();
            if inside.iter().any(|child| defines_type(*child))
                && let Some(Item::Record { names, .. } | Item::Enum { names, .. }) =
                    header.items.last_mut()
                && names.typedef.is_none()
            {
                names.typedef = Some(name);
                return Ok(());
            }
            let of = entity.get_typedef_underlying_type();
            let of = type_of(of.context("a typedef of no type")?, entity)?;
            Item::Alias { name, of }
        }
        EntityKind::FunctionDecl => Item::Function(Function {
            name: name(entity)?,
            signature: signature(entity.get_type().context("no type")?, entity)?,
        }),
        _ => return Ok(()),
    };
    header.items.push(item);
    Ok(())
}

fn defines_type(entity: Entity) -> bool {
    let kind = entity.get_kind();
    let names_type = matches!(
        kind,
        EntityKind::StructDecl | EntityKind::UnionDecl | EntityKind::EnumDecl
    );
    names_type && entity.is_definition()
}

fn name(entity: Entity) -> Result<String> {
    entity.get_name().context("a declaration without a name")
}

/// The name that the header gives; libclang describes what has none.
fn given_name(entity: Entity) -> Option<String> {
    let name = entity.get_name()?;
    let identifier = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (identifier && !name.is_empty()).then_some(name)
}

fn names(entity: Entity) -> Names {
    Names {
        tag: given_name(entity),
        typedef: None,
    }
}

fn macro_without_parameters(entity: Entity) -> Option<Macro> {
    if entity.is_function_like_macro() {
        return None;
    }
    let tokens = entity.get_range()?.tokenize();
    let mut spellings = tokens.iter().map(|token| token.get_spelling());
    Some(Macro {
        name: spellings.next()?,
        file: path(entity)?.file_name()?.to_string_lossy().into_owned(),
        body: spellings.collect(),
    })
}

fn enumerators(entity: Entity) -> Result<Vec<(String, i64)>> {
    let unsigned = entity
        .get_enum_underlying_type()
        .is_some_and(|ty| ty.is_unsigned_integer());
    let mut values = Vec::new();
    for child in entity.get_children() {
        if let Some((signed, bits)) = child.get_enum_constant_value() {
            let value = if unsigned {
                i64::try_from(bits).context("an enumerator beyond 63 bits")?
            } else {
                signed
            };
            values.push((name(child)?, value));
        }
    }
    Ok(values)
}

fn record(entity: Entity) -> Result<Record> {
    let ty = entity.get_type().context("no type")?;
    let mut fields = Vec::new();
    let mut natural = 1;
    for field in ty.get_fields().context("no fields")? {
        ensure!(!field.is_bit_field(), "bit fields are not supported");
        let of = field.get_type().context("no type")?;
        natural = natural.max(of.get_alignof()?);
        fields.push(Field {
            name: given_name(field),
            ty: type_of(of, field)?,
            offset: field.get_offset_of_field()? / 8,
        });
    }
    let align = ty.get_alignof()?;
    Ok(Record {
        union: entity.get_kind() == EntityKind::UnionDecl,
        size: ty.get_sizeof()?,
        align,
        over_aligned: align > natural,
        fields,
    })
}

/// `ty` as `entity` uses it: libclang keeps the names of a function's
/// parameters there, not in the type.
fn type_of(ty: clang::Type, entity: Entity) -> Result<Type> {
    Ok(match ty.get_kind() {
        TypeKind::Void => Type::Void,
        TypeKind::CharS => Type::Primitive("c_char"),
        TypeKind::SChar => Type::Primitive("i8"),
        TypeKind::UChar => Type::Primitive("u8"),
        TypeKind::Short => Type::Primitive("i16"),
        TypeKind::UShort => Type::Primitive("u16"),
        TypeKind::Int => Type::Primitive("i32"),
        TypeKind::UInt => Type::Primitive("u32"),
        TypeKind::Long | TypeKind::LongLong => Type::Primitive("i64"),
        TypeKind::ULong | TypeKind::ULongLong => Type::Primitive("u64"),
        TypeKind::Float => Type::Primitive("f32"),
        TypeKind::Double => Type::Primitive("f64"),
        TypeKind::Elaborated => type_of(ty.get_elaborated_type().context("no type")?, entity)?,
        TypeKind::Typedef => typedef(ty.get_typedef_name().context("no name")?),
        TypeKind::Record | TypeKind::Enum => {
            let declared = ty.get_declaration().context("no declaration")?;
            let outer = declared.get_lexical_parent().context("no parent")?;
            let inside = matches!(
                outer.get_kind(),
                EntityKind::StructDecl | EntityKind::UnionDecl
            );
            match given_name(declared) {
                Some(tag) if !inside => Type::Tagged(tag),
                _ if ty.get_kind() == TypeKind::Record => Type::Record(Box::new(record(declared)?)),
                _ => bail!("an enum inside another type is not supported"),
            }
        }
        TypeKind::Pointer => {
            let to = ty.get_pointee_type().context("no type")?;
            if to.get_argument_types().is_some() {
                Type::Function(Box::new(signature(to, entity)?))
            } else {
                pointer(to, entity)?
            }
        }
        TypeKind::ConstantArray => Type::Array {
            length: ty.get_size().context("no length")?,
            of: Box::new(type_of(ty.get_element_type().context("no type")?, entity)?),
        },
        kind => bail!(
            "the type {} ({kind:?}) is not supported",
            ty.get_display_name()
        ),
    })
}

/// A typedef by its name; the standard's fixed-width types by Rust's.
fn typedef(name: String) -> Type {
    Type::Primitive(match name.as_str() {
        "size_t" => "usize",
        "uint64_t" => "u64",
        "uint32_t" => "u32",
        "int64_t" => "i64",
        "int32_t" => "i32",
        _ => return Type::Named(name),
    })
}

fn pointer(to: clang::Type, entity: Entity) -> Result<Type> {
    Ok(Type::Pointer {
        constant: to.is_const_qualified(),
        to: Box::new(type_of(to, entity)?),
    })
}

/// The function type `ty`, whose parameters `entity` declares.
fn signature(ty: clang::Type, entity: Entity) -> Result<Signature> {
    ensure!(!ty.is_variadic(), "variadic functions are not supported");
    let mut declared = entity.get_children();
    declared.retain(|child| child.get_kind() == EntityKind::ParmDecl);
    let mut parameters = Vec::new();
    for parameter in declared {
        let ty = parameter.get_type().context("no type")?;
        let ty = match ty.get_kind() {
            // As a parameter, an array is a pointer.
            TypeKind::ConstantArray | TypeKind::IncompleteArray => {
                pointer(ty.get_element_type().context("no type")?, parameter)?
            }
            _ => type_of(ty, parameter)?,
        };
        parameters.push((parameter.get_name().unwrap_or_default(), ty));
    }
    let types = ty.get_argument_types().context("no parameters")?;
    ensure!(
        types.len() == parameters.len(),
        "{} of {} parameters found",
        parameters.len(),
        types.len()
    );
    Ok(Signature {
        result: type_of(ty.get_result_type().context("no result")?, entity)?,
        parameters,
    })
}
