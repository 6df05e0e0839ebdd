//! Declarations: variables, parameters, functions.

use crate::cursor::{Cursor, Failed, Step};
use crate::number;
use crate::parser::Parser;
use crate::recover::begins_item;
use crate::{Directive, Function, Linkage, Span, TokenKind, Type, Variable, VariableSpace};

const VARIABLE_HELP: &str =
    "Write `.global .align 4 .b32 name[8];`: space, attributes, type, names.";
const PARAMETER_HELP: &str = "Write `.param .u64 name` and separate parameters by commas.";
const FUNCTION_HELP: &str =
    "Write `.entry name (parameters) { … }` or `.func (returns) name (parameters) { … }`.";
const ARRAY_HELP: &str =
    "Array lengths are integers: `name[8]`, or `name[]` where the length is given elsewhere.";
const INITIALIZER_HELP: &str = "Write `= value` or `= {values}` and close every brace.";

impl VariableSpace {
    /// The space that a directive (with its dot) names.
    pub fn from_directive(text: &str) -> Option<VariableSpace> {
        Some(match text {
            ".reg" => VariableSpace::Reg,
            ".sreg" => VariableSpace::Sreg,
            ".const" => VariableSpace::Const,
            ".global" => VariableSpace::Global,
            ".local" => VariableSpace::Local,
            ".param" => VariableSpace::Param,
            ".shared" => VariableSpace::Shared,
            ".tex" => VariableSpace::Tex,
            _ => return None,
        })
    }
}

/// What stands before the names of a declaration.
struct Prefix {
    space: VariableSpace,
    align: Option<u32>,
    vector: u32,
    ty: Type,
    is_pointer: bool,
    has_attributes: bool,
}

impl<'a> Cursor<'a> {
    /// `.space … name, name;`, one variable per name.
    pub fn declarations(&mut self, start: u32, linkage: Linkage) -> Step<Vec<Variable<'a>>> {
        let prefix = self.prefix()?;
        let mut variables = Vec::with_capacity(1);
        loop {
            variables.push(self.declarator(&prefix, linkage)?);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';', "after a declaration", VARIABLE_HELP)?;
        let span = self.since(start);
        for variable in &mut variables {
            variable.span = span;
        }
        Ok(variables)
    }

    /// `( … )` of a function or prototype. After an error it continues with the
    /// next parameter, and fails at the end.
    pub fn parameters(&mut self) -> Step<Vec<Variable<'a>>> {
        self.bump();
        let mut list = Vec::new();
        if self.eat(b')') {
            return Ok(list);
        }
        let mut result = Ok(());
        loop {
            match self.parameter() {
                Ok(variable) => list.push(variable),
                Err(Failed) => {
                    result = Err(Failed);
                    self.skip_to(b",){};");
                }
            }
            if !self.eat(b',') {
                break;
            }
        }
        if result.is_ok() || self.at(b')') {
            self.expect(b')', "after the parameters", PARAMETER_HELP)?;
        }
        result.map(|()| list)
    }

    fn parameter(&mut self) -> Step<Variable<'a>> {
        let start = self.token.start;
        let prefix = self.prefix()?;
        let mut variable = self.declarator(&prefix, Linkage::Local)?;
        variable.span = self.since(start);
        Ok(variable)
    }

    fn prefix(&mut self) -> Step<Prefix> {
        let space = match self.token.kind {
            TokenKind::Directive => VariableSpace::from_directive(self.text()),
            _ => None,
        };
        let Some(space) = space else {
            return Err(self.unexpected("a state space", "in a declaration", VARIABLE_HELP));
        };
        self.bump();
        if space == VariableSpace::Const && self.eat(b'[') {
            self.small_integer("a bank", "after `.const[`", VARIABLE_HELP)?;
            self.expect(b']', "after a bank", VARIABLE_HELP)?;
        }
        let mut prefix = Prefix {
            space,
            align: None,
            vector: 1,
            ty: Type::B8,
            is_pointer: false,
            has_attributes: false,
        };
        let mut has_type = false;
        while self.token.kind == TokenKind::Directive {
            let text = self.text();
            if let Some(ty) = Type::from_modifier(&text[1..]) {
                (prefix.ty, has_type) = (ty, true);
                self.bump();
                continue;
            }
            let at = self.span();
            self.bump();
            prefix.has_attributes |= !matches!(text, ".align" | ".v2" | ".v4" | ".v8");
            match text {
                ".align" => {
                    let align =
                        self.small_integer("an alignment", "after `.align`", VARIABLE_HELP)?;
                    if !align.is_power_of_two() {
                        let help = "Alignments are powers of two.";
                        return Err(self.fail(format!("alignment {align}"), at, help));
                    }
                    // After `.ptr` it is the alignment of what the pointer points to.
                    if !prefix.is_pointer {
                        prefix.align = Some(align);
                    }
                }
                ".v2" => prefix.vector = 2,
                ".v4" => prefix.vector = 4,
                ".v8" => prefix.vector = 8,
                ".ptr" => prefix.is_pointer = true,
                ".attribute" => self.attribute()?,
                // `.ptr .global`, and what later versions may add.
                _ => {}
            }
        }
        if !has_type {
            return Err(self.unexpected("a type", "in a declaration", VARIABLE_HELP));
        }
        Ok(prefix)
    }

    /// `( … )` after `.attribute`.
    pub fn attribute(&mut self) -> Step<()> {
        let help = "Write `.attribute(.managed)`.";
        self.expect(b'(', "after `.attribute`", help)?;
        let mut depth = 1;
        while depth > 0 {
            match self.token.kind {
                TokenKind::Punct(b'(') => depth += 1,
                TokenKind::Punct(b')') => depth -= 1,
                TokenKind::Punct(b';' | b'{' | b'}') => {
                    return Err(self.unexpected("`)`", "after an attribute", help));
                }
                _ if self.token.at_end => {
                    return Err(self.unexpected("`)`", "after an attribute", help));
                }
                _ => {}
            }
            self.bump();
        }
        Ok(())
    }

    /// `name`, `name<5>`, `name[4][2]`, `name[] = {…}`.
    fn declarator(&mut self, prefix: &Prefix, linkage: Linkage) -> Step<Variable<'a>> {
        let (name, name_span) = self.word("a name", "in a declaration", VARIABLE_HELP)?;
        let mut range = None;
        if self.eat(b'<') {
            range = Some(self.small_integer(
                "a count",
                "after `<`",
                "Write `%r<5>` for %r0 to %r4.",
            )?);
            self.expect(b'>', "after a count", "Write `%r<5>` for %r0 to %r4.")?;
        }
        let mut dimensions = Vec::new();
        while self.eat(b'[') {
            if self.eat(b']') {
                dimensions.push(None);
                continue;
            }
            let length = if self.token.kind == TokenKind::Integer {
                number::integer(self.text())
            } else {
                None
            };
            let Some(length) = length else {
                return Err(self.unexpected("a length", "in an array", ARRAY_HELP));
            };
            self.bump();
            dimensions.push(Some(length));
            self.expect(b']', "after a length", ARRAY_HELP)?;
        }
        let initializer = if self.eat(b'=') {
            Some(self.initializer()?)
        } else {
            None
        };
        Ok(Variable {
            space: prefix.space,
            linkage,
            align: prefix.align,
            vector: prefix.vector,
            ty: prefix.ty,
            name,
            name_span,
            range,
            dimensions,
            initializer,
            is_pointer: prefix.is_pointer,
            has_attributes: prefix.has_attributes,
            span: name_span,
        })
    }

    /// Everything up to the `,` or `;` outside braces.
    fn initializer(&mut self) -> Step<Span> {
        let start = self.token.start;
        let mut depth = 0usize;
        loop {
            match self.token.kind {
                _ if self.token.at_end => {
                    return Err(self.unexpected("`;`", "after an initializer", INITIALIZER_HELP));
                }
                TokenKind::Punct(b',' | b';') if depth == 0 => break,
                TokenKind::Punct(b'{' | b'(') => depth += 1,
                TokenKind::Punct(b'}' | b')') if depth > 0 => depth -= 1,
                // Casts: `(.s64)4`.
                TokenKind::Directive if matches!(self.text(), ".s64" | ".u64") => {}
                TokenKind::Directive => {
                    return Err(self.unfinished("`;`", "after an initializer", INITIALIZER_HELP));
                }
                TokenKind::Punct(b'}' | b')' | b';')
                | TokenKind::Unknown
                | TokenKind::Unterminated => {
                    return Err(self.unexpected("a value", "in an initializer", INITIALIZER_HELP));
                }
                _ => {}
            }
            self.bump();
        }
        if self.token.start == start {
            return Err(self.unexpected("a value", "in an initializer", INITIALIZER_HELP));
        }
        Ok(self.since(start))
    }
}

impl<'a> Parser<'a> {
    /// `.entry` or `.func`, declared or defined; its linkage was parsed before.
    /// `None` if its head is wrong; the body is parsed in either case, for its
    /// errors.
    pub fn function(&mut self, start: u32, linkage: Linkage) -> Step<Option<Function<'a>>> {
        let head = self.cursor.function_head(linkage);
        if head.is_err() {
            self.cursor.skip_to(b"{};");
            if self.cursor.at(b'{') {
                self.block()?;
                return Ok(None);
            }
        }
        let mut function = head?;
        if self.cursor.at(b'{') {
            function.body = Some(self.block()?);
        } else {
            self.cursor
                .expect(b';', "or a body after a function's head", FUNCTION_HELP)?;
        }
        function.span = self.cursor.since(start);
        Ok(Some(function))
    }
}

impl<'a> Cursor<'a> {
    fn function_head(&mut self, linkage: Linkage) -> Step<Function<'a>> {
        let is_entry = self.at_directive(".entry");
        self.bump();
        let mut directives = Vec::new();
        while self.at_directive(".attribute") {
            directives.push(self.function_directive()?);
        }
        let returns = if self.at(b'(') && !is_entry {
            self.parameters()?
        } else {
            Vec::new()
        };
        let (name, name_span) = self.word("a name", "in a function", FUNCTION_HELP)?;
        let mut parameter_list = None;
        let mut parameters = Vec::new();
        if self.at(b'(') {
            let start = self.token.start;
            parameters = self.parameters()?;
            parameter_list = Some(self.since(start));
        }
        // A directive that begins something else means that `;` is missing.
        while self.token.kind == TokenKind::Directive && !begins_item(self.text()) {
            directives.push(self.function_directive()?);
        }
        Ok(Function {
            is_entry,
            linkage,
            name,
            name_span,
            returns,
            parameters,
            parameter_list,
            directives,
            body: None,
            span: name_span,
        })
    }

    /// `.maxntid 1024, 1, 1` and similar: a directive with numbers, strings or
    /// a list in parentheses.
    fn function_directive(&mut self) -> Step<Directive<'a>> {
        let start = self.token.start;
        let name = self.text();
        let name_end = self.token.end;
        self.bump();
        if self.at(b'(') {
            self.attribute()?;
        } else {
            while matches!(
                self.token.kind,
                TokenKind::Integer | TokenKind::Float | TokenKind::String | TokenKind::Punct(b',')
            ) {
                self.bump();
            }
            // `.pragma "nounroll";` ends with a semicolon, unlike the others.
            if name == ".pragma" {
                self.eat(b';');
            }
        }
        let span = self.since(start);
        Ok(Directive {
            name,
            arguments: self.slice(name_end, span.end).trim(),
            span,
        })
    }
}
