//! Reads the C declarations that `cuda.h` consists of. Not a C parser: what
//! the header does not use is an error that quotes the place.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashSet};

/// A C type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Void,
    /// A Rust primitive's name.
    Primitive(&'static str),
    /// A typedef's name.
    Named(String),
    /// `struct tag`.
    Tagged(String),
    Pointer {
        constant: bool,
        to: Box<Type>,
    },
    /// Length as a C expression.
    Array {
        of: Box<Type>,
        length: String,
    },
    Function {
        result: Box<Type>,
        parameters: Vec<(String, Type)>,
    },
    /// A struct or union defined in place.
    Record(Record),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub union: bool,
    pub align: Option<String>,
    /// Name and type; no name for an anonymous member.
    pub fields: Vec<(Option<String>, Type)>,
}

#[derive(Debug)]
pub enum Item {
    Handle { name: String },
    Alias { name: String, of: Type },
    Enum { name: String, variants: Vec<String> },
    Record { name: String, record: Record },
}

#[derive(Debug)]
pub struct Function {
    pub name: String,
    pub parameters: Vec<(String, Type)>,
}

#[derive(Debug, Default)]
pub struct Header {
    pub items: Vec<Item>,
    pub functions: Vec<Function>,
    /// Macros with a value, in order.
    pub macros: Vec<String>,
    /// From struct tag to the typedef that names it.
    pub tags: BTreeMap<String, String>,
}

/// One variant of a function as cuGetProcAddress chooses it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    pub name: String,
    /// First driver version that has it, as in 12030.
    pub since: u32,
    pub symbol: String,
    /// Its per-thread default stream twin.
    pub per_thread: Option<String>,
}

struct Tokens<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or("")
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if !self.accept(token) {
            bail!("expected `{token}` at `{}`", self.context());
        }
        Ok(())
    }

    fn identifier(&mut self) -> Result<&'a str> {
        let token = self.peek();
        if !is_identifier(token) {
            bail!("expected a name at `{}`", self.context());
        }
        self.at += 1;
        Ok(token)
    }

    fn context(&self) -> String {
        let from = self.at.saturating_sub(8).min(self.tokens.len());
        let to = (self.at + 8).min(self.tokens.len());
        self.tokens[from..to].join(" ")
    }
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

fn tokenize(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        at += 1;
        if byte.is_ascii_whitespace() {
            continue;
        }
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
                at += 1;
            }
        } else if byte == b'"' {
            while at < bytes.len() && bytes[at] != b'"' {
                at += 1;
            }
            at += 1;
        } else if (byte == b'<' || byte == b'>') && bytes.get(at) == Some(&byte) {
            at += 1;
        }
        tokens.push(&text[start..at.min(bytes.len())]);
    }
    tokens
}

/// Parses preprocessed text with its `#define` lines.
pub fn header(text: &str) -> Result<Header> {
    let mut header = Header::default();
    let mut code = String::new();
    for line in text.lines() {
        if let Some(definition) = line.strip_prefix("#define ") {
            let (name, value) = definition.split_once(' ').unwrap_or((definition, ""));
            let constant = name.starts_with("CU_") || name.starts_with("CUDA_");
            if constant && !value.trim().is_empty() && !name.contains('(') && name != "CUDA_CB" {
                header.macros.push(name.to_owned());
            }
        } else if !line.starts_with('#') {
            code.push_str(line);
            code.push('\n');
        }
    }
    let mut tokens = Tokens {
        tokens: tokenize(&code),
        at: 0,
    };
    while !tokens.peek().is_empty() {
        if tokens.accept(";") {
            continue;
        }
        if tokens.accept("typedef") {
            typedef(&mut tokens, &mut header)?;
        } else if matches!(tokens.peek(), "struct" | "union" | "enum") {
            // A forward declaration, or a definition with a tag only.
            let union = tokens.next() == "union";
            let tag = tokens.identifier()?.to_owned();
            if tokens.peek() == "{" {
                let record = record(&mut tokens, union)?;
                define(&mut header, tag.clone(), Some(tag), record);
            }
            tokens.expect(";")?;
        } else {
            let result = base_type(&mut tokens)?;
            let (name, ty) = declarator(&mut tokens, result)?;
            tokens.expect(";")?;
            let Type::Function { result, parameters } = ty else {
                bail!("`{name}` is no function")
            };
            if *result != Type::Named("CUresult".into()) {
                bail!("`{name}` returns something else than CUresult");
            }
            header.functions.push(Function { name, parameters });
        }
    }
    // A pointer to a struct that is never defined is a handle.
    let mut items = std::mem::take(&mut header.items);
    for item in &mut items {
        if let Item::Alias {
            name,
            of: Type::Pointer { to, .. },
        } = item
            && let Type::Tagged(tag) = &**to
            && !header.tags.contains_key(tag)
        {
            *item = Item::Handle { name: name.clone() };
        }
    }
    header.items = items;
    // Old revisions are declared after the newest; every name only once.
    let mut seen = HashSet::new();
    for function in &header.functions {
        if !seen.insert(&function.name) {
            bail!("`{}` is declared twice", function.name);
        }
    }
    Ok(header)
}

fn define(header: &mut Header, name: String, tag: Option<String>, record: Record) {
    if let Some(tag) = tag {
        header.tags.insert(tag, name.clone());
    }
    header.items.push(Item::Record { name, record });
}

fn typedef(tokens: &mut Tokens, header: &mut Header) -> Result<()> {
    let keyword = tokens.peek();
    if matches!(keyword, "struct" | "union" | "enum") {
        let start = tokens.at;
        tokens.next();
        let tag = (tokens.peek() != "{")
            .then(|| tokens.identifier())
            .transpose()?
            .map(str::to_owned);
        if tokens.peek() == "{" {
            if keyword == "enum" {
                let variants = enumerators(tokens)?;
                let name = tokens.identifier()?.to_owned();
                if let Some(tag) = tag {
                    header.tags.insert(tag, name.clone());
                }
                header.items.push(Item::Enum { name, variants });
            } else {
                let record = record(tokens, keyword == "union")?;
                let name = tokens.identifier()?.to_owned();
                define(header, name.clone(), tag, record);
                while tokens.accept(",") {
                    let alias = tokens.identifier()?.to_owned();
                    header.items.push(Item::Alias {
                        name: alias,
                        of: Type::Named(name.clone()),
                    });
                }
            }
            return tokens.expect(";");
        }
        tokens.at = start;
    }
    let base = base_type(tokens)?;
    let (name, of) = declarator(tokens, base)?;
    header.items.push(Item::Alias { name, of });
    tokens.expect(";")
}

fn enumerators(tokens: &mut Tokens) -> Result<Vec<String>> {
    tokens.expect("{")?;
    let mut names = Vec::new();
    while !tokens.accept("}") {
        names.push(tokens.identifier()?.to_owned());
        if tokens.accept("=") {
            while !matches!(tokens.peek(), "," | "}" | "") {
                tokens.next();
            }
        }
        tokens.accept(",");
    }
    Ok(names)
}

fn record(tokens: &mut Tokens, union: bool) -> Result<Record> {
    tokens.expect("{")?;
    let mut record = Record {
        union,
        align: None,
        fields: Vec::new(),
    };
    while !tokens.accept("}") {
        if tokens.accept("_Alignas") {
            tokens.expect("(")?;
            record.align = Some(tokens.next().to_owned());
            tokens.expect(")")?;
        }
        let base = base_type(tokens)?;
        if tokens.accept(";") {
            record.fields.push((None, base));
            continue;
        }
        loop {
            let (name, ty) = declarator(tokens, base.clone())?;
            record.fields.push((Some(name), ty));
            if !tokens.accept(",") {
                break;
            }
        }
        tokens.expect(";")?;
    }
    Ok(record)
}

/// Specifiers, with `const` where it stands before a `*` recorded by wrapping
/// the type so that `declarator` sees it.
fn base_type(tokens: &mut Tokens) -> Result<Type> {
    let mut constant = tokens.accept("const");
    let mut words: Vec<&str> = Vec::new();
    let ty = if matches!(tokens.peek(), "struct" | "union" | "enum") {
        let union = tokens.next() == "union";
        if tokens.peek() == "{" {
            Type::Record(record(tokens, union)?)
        } else {
            let tag = tokens.identifier()?.to_owned();
            if tokens.peek() == "{" {
                Type::Record(record(tokens, union)?)
            } else {
                Type::Tagged(tag)
            }
        }
    } else {
        while matches!(
            tokens.peek(),
            "unsigned" | "signed" | "int" | "long" | "short" | "char" | "float" | "double"
        ) {
            words.push(tokens.next());
        }
        match words[..] {
            [] => match tokens.identifier()? {
                "void" => Type::Void,
                "size_t" => Type::Primitive("usize"),
                "uint64_t" => Type::Primitive("u64"),
                "uint32_t" => Type::Primitive("u32"),
                "int64_t" => Type::Primitive("i64"),
                "int32_t" => Type::Primitive("i32"),
                name => Type::Named(name.to_owned()),
            },
            ["char"] => Type::Primitive("c_char"),
            ["unsigned", "char"] => Type::Primitive("u8"),
            ["unsigned", "short"] | ["unsigned", "short", "int"] => Type::Primitive("u16"),
            ["short"] => Type::Primitive("i16"),
            ["int"] => Type::Primitive("i32"),
            ["unsigned"] | ["unsigned", "int"] => Type::Primitive("u32"),
            ["long", "long"] => Type::Primitive("i64"),
            ["unsigned", "long", "long"] => Type::Primitive("u64"),
            ["float"] => Type::Primitive("f32"),
            ["double"] => Type::Primitive("f64"),
            _ => bail!("type `{}` is not known", words.join(" ")),
        }
    };
    constant |= tokens.accept("const");
    if constant && tokens.accept("*") {
        let pointer = Type::Pointer {
            constant: true,
            to: Box::new(ty),
        };
        return Ok(pointer);
    }
    Ok(ty)
}

/// Pointers, name, arrays and parameters after the specifiers.
fn declarator(tokens: &mut Tokens, mut ty: Type) -> Result<(String, Type)> {
    loop {
        if tokens.accept("const") {
            if tokens.accept("*") {
                ty = Type::Pointer {
                    constant: true,
                    to: Box::new(ty),
                };
            }
        } else if tokens.accept("*") {
            ty = Type::Pointer {
                constant: false,
                to: Box::new(ty),
            };
        } else {
            break;
        }
    }
    if tokens.peek() == "(" {
        // `(*name)(parameters)`; parameters need no name.
        tokens.next();
        tokens.expect("*")?;
        let name = match tokens.peek() {
            ")" => String::new(),
            _ => tokens.identifier()?.to_owned(),
        };
        tokens.expect(")")?;
        let parameters = parameters(tokens)?;
        return Ok((
            name,
            Type::Function {
                result: Box::new(ty),
                parameters,
            },
        ));
    }
    let name = if is_identifier(tokens.peek()) {
        tokens.next().to_owned()
    } else {
        String::new()
    };
    if tokens.peek() == "(" {
        let parameters = parameters(tokens)?;
        return Ok((
            name,
            Type::Function {
                result: Box::new(ty),
                parameters,
            },
        ));
    }
    let mut lengths = Vec::new();
    while tokens.accept("[") {
        let mut length = Vec::new();
        while !matches!(tokens.peek(), "]" | "") {
            length.push(tokens.next());
        }
        tokens.expect("]")?;
        lengths.push(length.join(" "));
    }
    for length in lengths.into_iter().rev() {
        ty = Type::Array {
            of: Box::new(ty),
            length,
        };
    }
    Ok((name, ty))
}

fn parameters(tokens: &mut Tokens) -> Result<Vec<(String, Type)>> {
    tokens.expect("(")?;
    let mut list = Vec::new();
    while !tokens.accept(")") {
        let base = base_type(tokens)?;
        let (name, ty) = declarator(tokens, base)?;
        let ty = match ty {
            Type::Array { of, .. } => Type::Pointer {
                constant: false,
                to: of,
            },
            other => other,
        };
        if ty != Type::Void {
            list.push((name, ty));
        }
        tokens.accept(",");
    }
    Ok(list)
}

/// Pairs each `PFN_name_vVERSION` of cudaTypedefs.h with the symbol that
/// cuda.h declares: revisions of a name appear in the order of the versions
/// that introduced them, and the counts must agree exactly.
pub fn revisions(typedefs: &str, header: &Header) -> Result<Vec<Revision>> {
    type Key = (String, &'static str);
    let mut versions: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    for part in typedefs.split("*PFN_").skip(1) {
        let name = part.split(')').next().unwrap_or("");
        let (name, suffix) = split_suffix(name);
        let (base, version) = name
            .rsplit_once("_v")
            .with_context(|| format!("PFN_{name} has no version"))?;
        let version = version
            .parse()
            .with_context(|| format!("PFN_{name} has no version"))?;
        versions
            .entry((base.to_owned(), suffix))
            .or_default()
            .push(version);
    }
    let mut symbols: BTreeMap<Key, Vec<(u32, String)>> = BTreeMap::new();
    for function in &header.functions {
        let (name, suffix) = split_suffix(&function.name);
        let (base, revision) = match name
            .rsplit_once("_v")
            .map(|(base, digits)| (base, digits.parse()))
        {
            Some((base, Ok(revision))) => (base, revision),
            _ => (name, 1),
        };
        symbols
            .entry((base.to_owned(), suffix))
            .or_default()
            .push((revision, function.name.clone()));
    }
    let mut result: BTreeMap<(String, u32), Revision> = BTreeMap::new();
    let mut twins = Vec::new();
    for ((name, suffix), mut found) in symbols {
        let mut since = versions.remove(&(name.clone(), suffix)).unwrap_or_default();
        since.sort_unstable();
        found.sort();
        if since.len() != found.len() {
            bail!("{name}{suffix}: cudaTypedefs.h has versions {since:?}, cuda.h has {found:?}");
        }
        for (since, (revision, symbol)) in since.into_iter().zip(found) {
            if suffix.is_empty() {
                let entry = Revision {
                    name: name.clone(),
                    since,
                    symbol,
                    per_thread: None,
                };
                result.insert((name.clone(), revision), entry);
            } else {
                twins.push(((name.clone(), revision), symbol));
            }
        }
    }
    if let Some(((name, suffix), _)) = versions.into_iter().next() {
        bail!("cudaTypedefs.h has {name}{suffix}, cuda.h has not");
    }
    for (key, symbol) in twins {
        let entry = result
            .get_mut(&key)
            .with_context(|| format!("{symbol} has no legacy twin"))?;
        entry.per_thread = Some(symbol);
    }
    let mut list: Vec<Revision> = result.into_values().collect();
    list.sort();
    Ok(list)
}

fn split_suffix(name: &str) -> (&str, &'static str) {
    for suffix in ["_ptds", "_ptsz"] {
        if let Some(name) = name.strip_suffix(suffix) {
            return (name, suffix);
        }
    }
    (name, "")
}

/// Symbols that libcuda exports and cuda.h does not declare: those of
/// cudaGL.h, cudaEGL.h and cudaVDPAU.h (in `headers`) and of cudaProfiler.h
/// (from `typedefs`, as the header itself is not part of the wheel).
pub fn extras(headers: &[String], typedefs: &str) -> Vec<String> {
    let mut names = std::collections::BTreeSet::new();
    for text in headers {
        // Not preprocessed: they include headers of other interfaces.
        for part in text.split("CUDAAPI ").skip(1) {
            names.extend(part.split('(').next().map(str::trim).map(str::to_owned));
        }
        for line in text.lines() {
            let Some(definition) = line.strip_prefix("#define cu") else {
                continue;
            };
            let Some(target) = definition.split_whitespace().nth(1) else {
                continue;
            };
            for (open, suffix) in [("__CUDA_API_PTDS(", "_ptds"), ("__CUDA_API_PTSZ(", "_ptsz")] {
                if let Some(name) = target.strip_prefix(open) {
                    names.insert(format!("{}{suffix}", name.trim_end_matches(')')));
                }
            }
            if !target.contains('(') {
                names.insert(target.to_owned());
            }
        }
    }
    for part in typedefs.split("*PFN_").skip(1) {
        names.extend(part.split("_v").next().map(str::to_owned));
    }
    // Windows only.
    names
        .retain(|name| is_identifier(name) && name.starts_with("cu") && !name.starts_with("cuWGL"));
    names.into_iter().collect()
}
