//! A reader for the C declarations of NVIDIA's runtime headers, after the
//! preprocessor: enums, structs, unions, typedefs and `extern` functions.
//!
//! It understands those headers and is no C compiler: what it cannot read at
//! top level it skips to the next `;`, and numbers (enum values, array
//! lengths, sizes) are left to the real compiler, which the generator asks.

use std::collections::HashMap;

/// A C type as far as the headers need it.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Void,
    /// A builtin type, by its Rust name.
    Builtin(&'static str),
    /// A typedef, struct, union or enum by name.
    Named(String),
    /// Pointer; the flag says whether the pointee is const.
    Pointer(Box<Type>, bool),
    /// Array; the length is a C expression.
    Array(Box<Type>, String),
    /// Pointer to function.
    Function(Vec<Type>, Box<Type>),
}

/// A struct or union with its body.
#[derive(Clone, Debug)]
pub struct Record {
    pub union: bool,
    pub fields: Vec<(String, Type)>,
    /// How C names it for `sizeof`; `None` for anonymous types inside others.
    pub c_name: Option<String>,
}

/// An `extern` function.
#[derive(Clone, Debug)]
pub struct Function {
    pub parameters: Vec<(String, Type)>,
    pub result: Type,
}

/// All that was read, in the headers' order.
#[derive(Default)]
pub struct Declarations {
    pub order: Vec<String>,
    pub records: HashMap<String, Record>,
    pub enums: HashMap<String, Vec<String>>,
    pub typedefs: HashMap<String, Type>,
    pub functions: Vec<(String, Function)>,
}

pub fn read(preprocessed: &str) -> Declarations {
    let tokens = tokens(preprocessed);
    let mut reader = Reader {
        tokens,
        at: 0,
        out: Declarations::default(),
    };
    while reader.at < reader.tokens.len() {
        let start = reader.at;
        if reader.item().is_none() {
            reader.at = start;
            reader.skip_item();
        }
    }
    reader.out
}

fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    let word = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
        } else if c == '#' {
            while chars.next_if(|c| *c != '\n').is_some() {}
        } else if word(c) {
            let mut token = c.to_string();
            while let Some(next) = chars.next_if(|c| word(*c)) {
                token.push(next);
            }
            out.push(token);
        } else if c == '"' {
            while chars.next_if(|c| *c != '"').is_some() {}
            chars.next();
            out.push("\"\"".into());
        } else {
            out.push(c.to_string());
        }
    }
    out
}

struct Reader {
    tokens: Vec<String>,
    at: usize,
    out: Declarations,
}

impl Reader {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn next(&mut self) -> Option<String> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.eat(token).then_some(())
    }

    fn skip_item(&mut self) {
        let mut depth = 0i32;
        while let Some(token) = self.next() {
            match token.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth -= 1;
                    if depth == 0 && token == "}" && self.peek() != ";" {
                        return;
                    }
                }
                ";" if depth == 0 => return,
                _ => {}
            }
        }
    }

    fn attributes(&mut self) -> Option<()> {
        while self.peek() == "__attribute__" {
            self.at += 1;
            let mut depth = 0;
            loop {
                match self.next()?.as_str() {
                    "(" => depth += 1,
                    ")" => {
                        depth -= 1;
                        if depth == 0 {
                            break;
                        }
                    }
                    _ => {}
                }
            }
        }
        Some(())
    }

    fn item(&mut self) -> Option<()> {
        if self.eat(";") {
            return Some(());
        }
        if self.eat("typedef") {
            let (base, constant) = self.specifiers(None)?;
            let (name, ty) = self.declarator(base, constant)?;
            self.attributes()?;
            self.expect(";")?;
            if ty != Type::Named(name.clone()) && !self.out.records.contains_key(&name) {
                self.out.order.push(name.clone());
                self.out.typedefs.insert(name, ty);
            }
            return Some(());
        }
        let function = self.eat("extern");
        let (base, constant) = self.specifiers(None)?;
        if !function {
            return self.expect(";");
        }
        let mut result = base;
        let mut constant = constant;
        while self.eat("*") {
            result = Type::Pointer(Box::new(result), constant);
            constant = self.eat("const");
        }
        self.attributes()?;
        let name = self.next()?;
        self.expect("(")?;
        let parameters = self.parameters()?;
        self.attributes()?;
        self.expect(";")?;
        self.out
            .functions
            .push((name, Function { parameters, result }));
        Some(())
    }

    /// Reads after `(` up to and with `)`.
    fn parameters(&mut self) -> Option<Vec<(String, Type)>> {
        let mut out = Vec::new();
        if self.eat(")") {
            return Some(out);
        }
        loop {
            let (base, constant) = self.specifiers(None)?;
            let (name, ty) = self.declarator(base, constant)?;
            let ty = match ty {
                Type::Array(element, _) => Type::Pointer(element, constant),
                other => other,
            };
            if ty != Type::Void {
                out.push((name, ty));
            }
            if self.eat(")") {
                return Some(out);
            }
            self.expect(",")?;
        }
    }

    /// Type specifiers; `outer` names the enclosing field for anonymous types.
    fn specifiers(&mut self, outer: Option<&str>) -> Option<(Type, bool)> {
        let mut constant = false;
        let mut words: Vec<String> = Vec::new();
        loop {
            self.attributes()?;
            match self.peek() {
                "const" => constant = true,
                "volatile" | "__extension__" => {}
                "struct" | "union" | "enum" => {
                    let kind = self.next()?;
                    let ty = self.tagged(&kind, outer)?;
                    constant |= self.eat("const");
                    return Some((ty, constant));
                }
                "unsigned" | "signed" | "int" | "long" | "short" | "char" | "void" | "float"
                | "double" => {
                    words.push(self.peek().to_string());
                }
                _ => break,
            }
            self.at += 1;
        }
        if words.is_empty() {
            let name = self.next()?;
            if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                return None;
            }
            constant |= self.eat("const");
            let ty = match name.as_str() {
                "size_t" => Type::Builtin("usize"),
                _ => Type::Named(name),
            };
            return Some((ty, constant));
        }
        let unsigned = words.iter().any(|w| w == "unsigned");
        let has = |word: &str| words.iter().any(|w| w == word);
        let ty = if has("void") {
            Type::Void
        } else if has("float") {
            Type::Builtin("f32")
        } else if has("double") {
            Type::Builtin("f64")
        } else if has("char") {
            Type::Builtin(if unsigned {
                "u8"
            } else if has("signed") {
                "i8"
            } else {
                "c_char"
            })
        } else if has("short") {
            Type::Builtin(if unsigned { "u16" } else { "i16" })
        } else if has("long") {
            Type::Builtin(if unsigned { "u64" } else { "i64" })
        } else {
            Type::Builtin(if unsigned { "u32" } else { "i32" })
        };
        Some((ty, constant))
    }

    /// After `struct`, `union` or `enum`.
    fn tagged(&mut self, kind: &str, outer: Option<&str>) -> Option<Type> {
        self.attributes()?;
        let tag = (self.peek() != "{").then(|| self.next()).flatten();
        if self.peek() != "{" {
            return Some(Type::Named(tag?));
        }
        self.at += 1;
        let name = match (&tag, outer) {
            (Some(tag), _) => tag.clone(),
            (None, Some(outer)) => outer.to_string(),
            // `typedef struct { … } name;`: look ahead for the name.
            (None, None) => {
                let mut depth = 1;
                let mut at = self.at;
                while depth > 0 {
                    match self.tokens.get(at)?.as_str() {
                        "{" => depth += 1,
                        "}" => depth -= 1,
                        _ => {}
                    }
                    at += 1;
                }
                self.tokens.get(at)?.clone()
            }
        };
        if kind == "enum" {
            let mut constants = Vec::new();
            while !self.eat("}") {
                let constant = self.next()?;
                if constant == "," {
                    continue;
                }
                constants.push(constant);
                if self.eat("=") {
                    let mut depth = 0;
                    loop {
                        match self.peek() {
                            "(" => depth += 1,
                            ")" => depth -= 1,
                            "," | "}" if depth == 0 => break,
                            "" => return None,
                            _ => {}
                        }
                        self.at += 1;
                    }
                }
            }
            self.out.order.push(name.clone());
            self.out.enums.insert(name.clone(), constants);
            return Some(Type::Named(name));
        }
        let mut fields = Vec::new();
        let mut anonymous = 0;
        while !self.eat("}") {
            // An anonymous type is named after the field that follows it.
            let ahead = self.name_after_body();
            let field = match ahead {
                Some(field) => field,
                None => {
                    anonymous += 1;
                    format!("anonymous{anonymous}")
                }
            };
            let (base, constant) = self.specifiers(Some(&format!("{name}_{field}")))?;
            if self.eat(";") {
                fields.push((field, base));
                continue;
            }
            loop {
                let (field, ty) = self.declarator(base.clone(), constant)?;
                fields.push((field, ty));
                if self.eat(";") {
                    break;
                }
                self.expect(",")?;
            }
        }
        self.attributes()?;
        let c_name = match (&tag, outer) {
            (Some(tag), _) => Some(format!("{kind} {tag}")),
            (None, None) => Some(name.clone()),
            (None, Some(_)) => None,
        };
        self.out.order.push(name.clone());
        self.out.records.insert(
            name.clone(),
            Record {
                union: kind == "union",
                fields,
                c_name,
            },
        );
        Some(Type::Named(name))
    }

    /// For `struct { … } name;` ahead: the name.
    fn name_after_body(&self) -> Option<String> {
        let mut at = self.at;
        if !matches!(self.tokens.get(at)?.as_str(), "struct" | "union") {
            return Some(String::new());
        }
        at += 1;
        if self.tokens.get(at)? != "{" {
            return Some(String::new());
        }
        let mut depth = 0;
        loop {
            match self.tokens.get(at)?.as_str() {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        let name = self.tokens.get(at + 1)?;
        (name != ";").then(|| name.clone())
    }

    fn declarator(&mut self, base: Type, constant: bool) -> Option<(String, Type)> {
        let mut ty = base;
        let mut constant = constant;
        while self.eat("*") {
            ty = Type::Pointer(Box::new(ty), constant);
            constant = self.eat("const");
        }
        self.attributes()?;
        if self.peek() == "(" && self.tokens.get(self.at + 1)? == "*" {
            self.at += 2;
            let name = if self.peek() == ")" {
                String::new()
            } else {
                self.next()?
            };
            self.expect(")")?;
            self.expect("(")?;
            let parameters = self.parameters()?;
            return Some((
                name,
                Type::Function(parameters.into_iter().map(|p| p.1).collect(), Box::new(ty)),
            ));
        }
        let name = if self
            .peek()
            .starts_with(|c: char| c.is_alphabetic() || c == '_')
        {
            self.next()?
        } else {
            String::new()
        };
        let mut lengths = Vec::new();
        while self.eat("[") {
            let mut length = String::new();
            let mut depth = 0;
            loop {
                match self.peek() {
                    "]" if depth == 0 => break,
                    "[" => depth += 1,
                    "]" => depth -= 1,
                    "" => return None,
                    _ => {}
                }
                length.push_str(&self.next()?);
                length.push(' ');
            }
            self.at += 1;
            lengths.push(length);
        }
        for length in lengths.into_iter().rev() {
            ty = Type::Array(Box::new(ty), length.trim().to_string());
        }
        Some((name, ty))
    }
}
