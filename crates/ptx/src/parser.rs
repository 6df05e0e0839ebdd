//! Builds the tree: file scope and bodies.
//!
//! Never stops at the first error: after one it continues behind the next `;`
//! or `}`, or at the next line if the statement ended there.

use crate::cursor::{Cursor, Failed, Step};
use crate::{
    Block, CallPrototype, Error, File, Guard, Instruction, Item, Label, Linkage, Loc, Mnemonic,
    Module, Opcode, Operand, Position, Span, Statement, Targets, TokenKind, VariableSpace,
};
use std::collections::HashMap;

const LINE_HELP: &str = "Write `.loc file line column` with three numbers on one line.";
const FILE_HELP: &str = "Write `.file index \"name\"` on one line.";
const TWICE_HELP: &str = "Leave out one of the two bodies, or rename one of the functions.";
const STATEMENT_HELP: &str =
    "A body holds labels, instructions, declarations, directives and `{ }` scopes.";
const ITEM_HELP: &str =
    "At file scope, declare variables and functions; each begins with a directive.";
const LABEL_HELP: &str = "Put a label before it: `name: .branchtargets a, b;`.";

/// Parse PTX text. On failure, all errors that were found, never none.
pub fn parse(source: &str) -> Result<Module<'_>, Vec<Error>> {
    if u32::try_from(source.len()).is_err() {
        let mut cursor = Cursor::new("");
        cursor.fail(
            "file of 4 GiB or more".to_string(),
            Span::default(),
            "Split the module.",
        );
        return Err(cursor.into_errors());
    }
    let mut parser = Parser {
        cursor: Cursor::new(source),
        module: Module {
            source,
            version: (0, 0),
            target: Vec::new(),
            address_size: 32,
            items: Vec::new(),
        },
        operands: Vec::new(),
    };
    parser.file();
    if parser.cursor.has_errors() {
        Err(parser.cursor.into_errors())
    } else {
        Ok(parser.module)
    }
}

pub(crate) struct Parser<'a> {
    pub cursor: Cursor<'a>,
    module: Module<'a>,
    /// Reused, so that every operand list is allocated once, at its size.
    operands: Vec<Operand<'a>>,
}

impl<'a> Parser<'a> {
    fn file(&mut self) {
        if !self.cursor.at_directive(".version") {
            let help = "Begin the file with `.version major.minor`, then `.target`.";
            self.cursor
                .unexpected("`.version`", "at the start of a PTX file", help);
        }
        while !self.cursor.token.at_end {
            let start = self.cursor.token.start;
            match self.item() {
                Ok(Some(item)) => self.module.items.push(item),
                Ok(None) => {}
                Err(Failed) => self.cursor.recover(start, false),
            }
        }
        if self.module.target.is_empty() && !self.cursor.has_errors() {
            let help = "Name the architecture after `.version`: `.target sm_90`.";
            self.cursor.unexpected("`.target`", "in a PTX file", help);
        }
        self.defined_once();
    }

    /// Only declarations may be repeated; of two bodies ptxas says "Duplicate
    /// definition of function".
    fn defined_once(&mut self) {
        let mut places: HashMap<&str, Span> = HashMap::new();
        let functions = self.module.functions();
        for function in functions.filter(|function| function.body.is_some()) {
            let (name, place) = (function.name, function.name_span);
            if let Some(first) = places.insert(name, place) {
                let line = Position::of(self.module.source, first.start).line;
                let message = format!("second definition of `{name}`, which line {line} defines");
                self.cursor.fail(message, place, TWICE_HELP);
            }
        }
    }

    fn item(&mut self) -> Step<Option<Item<'a>>> {
        if self.cursor.eat(b';') {
            return Ok(None);
        }
        if self.cursor.token.kind != TokenKind::Directive {
            return Err(self
                .cursor
                .unexpected("a directive", "at file scope", ITEM_HELP));
        }
        let start = self.cursor.token.start;
        let text = self.cursor.text();
        Ok(Some(match text {
            ".version" | ".target" | ".address_size" => {
                self.cursor.bump();
                self.header(text)?;
                Item::Header(self.cursor.since(start))
            }
            ".file" => Item::File(self.file_directive()?),
            ".entry" | ".func" => {
                return Ok(self.function(start, Linkage::Local)?.map(Item::Function));
            }
            ".visible" | ".extern" | ".weak" | ".common" => {
                self.cursor.bump();
                let linkage = match text {
                    ".visible" => Linkage::Visible,
                    ".extern" => Linkage::Extern,
                    ".weak" => Linkage::Weak,
                    _ => Linkage::Common,
                };
                if self.cursor.at_directive(".entry") || self.cursor.at_directive(".func") {
                    return Ok(self.function(start, linkage)?.map(Item::Function));
                } else {
                    return self.file_variables(start, linkage).map(|()| None);
                }
            }
            ".section" => {
                self.cursor.bump();
                self.section()?;
                Item::Other(self.cursor.since(start))
            }
            ".pragma" | ".alias" => {
                self.cursor.bump();
                let help = "End the directive with `;`.";
                while !self.cursor.at(b';') {
                    if self.cursor.token.at_end || self.cursor.at(b'{') || self.cursor.at(b'}') {
                        return Err(self.cursor.unexpected("`;`", "after a directive", help));
                    }
                    self.cursor.bump();
                }
                self.cursor.bump();
                Item::Other(self.cursor.since(start))
            }
            _ if VariableSpace::from_directive(text).is_some() => {
                return self.file_variables(start, Linkage::Local).map(|()| None);
            }
            _ => Item::Other(self.unknown_directive()?),
        }))
    }

    fn file_variables(&mut self, start: u32, linkage: Linkage) -> Step<()> {
        let variables = self.cursor.declarations(start, linkage)?;
        self.module
            .items
            .extend(variables.into_iter().map(Item::Variable));
        Ok(())
    }

    fn header(&mut self, name: &str) -> Step<()> {
        let cursor = &mut self.cursor;
        match name {
            ".version" => {
                let number = cursor
                    .text()
                    .split_once('.')
                    .filter(|_| cursor.token.kind == TokenKind::Float);
                match number
                    .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
                {
                    Some(version) => self.module.version = version,
                    None => {
                        let help = "Write `.version major.minor`, as in `.version 8.3`.";
                        return Err(cursor.unexpected("a version", "after `.version`", help));
                    }
                }
                cursor.bump();
            }
            ".target" => {
                let help = "Write `.target sm_90`, with options after commas.";
                loop {
                    let (word, _) = cursor.word("a target", "after `.target`", help)?;
                    self.module.target.push(word);
                    if !cursor.eat(b',') {
                        break;
                    }
                }
            }
            _ => {
                let help = "Write `.address_size 64` or `.address_size 32`.";
                self.module.address_size =
                    cursor.small_integer("32 or 64", "after `.address_size`", help)?;
            }
        }
        Ok(())
    }

    /// `.file 1 "name"[, time, size]`. No `;` ends it, nor the newline: only
    /// a comma carries it on (measured).
    fn file_directive(&mut self) -> Step<File<'a>> {
        let cursor = &mut self.cursor;
        let start = cursor.token.start;
        cursor.bump();
        let index = cursor.small_integer("an index", "after `.file`", FILE_HELP)?;
        if cursor.token.kind != TokenKind::String {
            return Err(cursor.unexpected("a file name", "in `.file`", FILE_HELP));
        }
        let name = cursor.text();
        let name = &name[1..name.len() - 1];
        cursor.bump();
        while cursor.eat(b',') {
            if cursor.token.kind != TokenKind::Integer {
                return Err(cursor.unexpected("a number", "in `.file`", FILE_HELP));
            }
            cursor.bump();
        }
        Ok(File {
            index,
            name,
            span: self.cursor.since(start),
        })
    }

    /// `.section name { … }`: DWARF, kept as text.
    fn section(&mut self) -> Step<()> {
        let help = "A section is `.section name { … }`.";
        while !self.cursor.at(b'{') {
            if self.cursor.token.at_end || self.cursor.at(b';') || self.cursor.at(b'}') {
                return Err(self.cursor.unexpected("`{`", "after `.section`", help));
            }
            self.cursor.bump();
        }
        let start = self.cursor.token.start;
        let mut depth = 0usize;
        loop {
            if self.cursor.token.at_end {
                let span = Span {
                    start,
                    end: start + 1,
                };
                return Err(self.cursor.fail(
                    "section that is never closed".to_string(),
                    span,
                    help,
                ));
            }
            depth += usize::from(self.cursor.at(b'{'));
            depth -= usize::from(self.cursor.at(b'}'));
            self.cursor.bump();
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// A directive that is not known, kept as text: to its `;`, or to the end
    /// of the line (but on over a line that ends with a comma).
    fn unknown_directive(&mut self) -> Step<Span> {
        let start = self.cursor.token.start;
        self.cursor.bump();
        let mut after_comma = false;
        loop {
            let token = self.cursor.token;
            match token.kind {
                _ if token.at_end || (token.after_newline && !after_comma) => break,
                TokenKind::Punct(b';') => {
                    self.cursor.bump();
                    break;
                }
                TokenKind::Punct(b'{' | b'}') => break,
                TokenKind::Unknown | TokenKind::Unterminated => {
                    return Err(self.cursor.unexpected(
                        "the end",
                        "of a directive",
                        "End the directive with `;`.",
                    ));
                }
                kind => after_comma = kind == TokenKind::Punct(b','),
            }
            self.cursor.bump();
        }
        Ok(self.cursor.since(start))
    }

    /// `{ … }`, errors inside recorded and passed over.
    pub fn block(&mut self) -> Step<Block<'a>> {
        let start = self.cursor.token.start;
        self.cursor.enter()?;
        self.cursor.bump();
        let mut statements = Vec::new();
        loop {
            if self.cursor.eat(b'}') {
                break;
            }
            if self.cursor.token.at_end {
                let span = Span {
                    start,
                    end: start + 1,
                };
                self.cursor.fail(
                    "scope that is never closed".to_string(),
                    span,
                    "Close it with `}`.",
                );
                break;
            }
            let start = self.cursor.token.start;
            if let Err(Failed) = self.statement(&mut statements) {
                self.cursor.recover(start, true);
            }
        }
        self.cursor.leave();
        Ok(Block {
            statements,
            span: self.cursor.since(start),
        })
    }

    #[inline]
    fn statement(&mut self, into: &mut Vec<Statement<'a>>) -> Step<()> {
        let start = self.cursor.token.start;
        match self.cursor.token.kind {
            TokenKind::Word => {
                let word = self.cursor.text();
                let span = self.cursor.span();
                self.cursor.bump();
                if self.cursor.eat(b':') {
                    let labelled = self.labelled(word, start)?;
                    into.push(labelled);
                } else {
                    let instruction = self.instruction(None, word, span, start)?;
                    into.push(Statement::Instruction(instruction));
                }
            }
            TokenKind::Punct(b'@') => {
                let guard = self.guard()?;
                let help = "A guard stands before an instruction, not before a scope or label.";
                let (word, span) = self.cursor.word("an instruction", "after a guard", help)?;
                let instruction = self.instruction(Some(guard), word, span, start)?;
                into.push(Statement::Instruction(instruction));
            }
            TokenKind::Directive => self.directive(start, into)?,
            TokenKind::Punct(b'{') => into.push(Statement::Block(self.block()?)),
            TokenKind::Punct(b';') => self.cursor.bump(),
            _ => {
                return Err(self
                    .cursor
                    .unexpected("a statement", "in a body", STATEMENT_HELP));
            }
        }
        Ok(())
    }

    /// What follows `name:`; a plain label ends there.
    fn labelled(&mut self, name: &'a str, start: u32) -> Step<Statement<'a>> {
        if self.cursor.token.kind == TokenKind::Directive {
            match self.cursor.text() {
                ".branchtargets" | ".calltargets" => return self.targets(name, start),
                ".callprototype" => return self.call_prototype(name, start),
                _ => {}
            }
        }
        Ok(Statement::Label(Label {
            name,
            span: self.cursor.since(start),
        }))
    }

    fn targets(&mut self, label: &'a str, start: u32) -> Step<Statement<'a>> {
        let help = "List names with commas and end with `;`.";
        self.cursor.bump();
        let mut names = Vec::new();
        loop {
            let (name, _) =
                self.cursor
                    .word("a label or function", "in a list of targets", help)?;
            names.push(name);
            if !self.cursor.eat(b',') {
                break;
            }
        }
        self.cursor.expect(b';', "after a list of targets", help)?;
        Ok(Statement::Targets(Targets {
            label,
            names,
            span: self.cursor.since(start),
        }))
    }

    fn call_prototype(&mut self, label: &'a str, start: u32) -> Step<Statement<'a>> {
        let help = "Write `name: .callprototype (.param .b32 _) _ (.param .b32 _);`.";
        self.cursor.bump();
        let returns = if self.cursor.at(b'(') {
            self.cursor.parameters()?
        } else {
            Vec::new()
        };
        self.cursor.word("`_`", "in a call prototype", help)?;
        let parameters = if self.cursor.at(b'(') {
            self.cursor.parameters()?
        } else {
            Vec::new()
        };
        // `.noreturn`, `.abi_preserve n` and similar.
        while self.cursor.token.kind == TokenKind::Directive {
            self.cursor.bump();
            while self.cursor.token.kind == TokenKind::Integer {
                self.cursor.bump();
            }
        }
        self.cursor.expect(b';', "after a call prototype", help)?;
        Ok(Statement::CallPrototype(CallPrototype {
            label,
            returns,
            parameters,
            span: self.cursor.since(start),
        }))
    }

    fn directive(&mut self, start: u32, into: &mut Vec<Statement<'a>>) -> Step<()> {
        let text = self.cursor.text();
        match text {
            ".loc" => into.push(Statement::Loc(self.loc()?)),
            ".pragma" => {
                self.cursor.bump();
                while self.cursor.token.kind == TokenKind::String || self.cursor.at(b',') {
                    self.cursor.bump();
                }
                self.cursor
                    .expect(b';', "after `.pragma`", "Write `.pragma \"name\";`.")?;
                into.push(Statement::Pragma(self.cursor.since(start)));
            }
            ".branchtargets" | ".calltargets" | ".callprototype" => {
                return Err(self.cursor.unexpected(
                    "a label",
                    "before a list of targets or a prototype",
                    LABEL_HELP,
                ));
            }
            ".visible" | ".extern" | ".weak" | ".common" => {
                self.cursor.bump();
                let linkage = match text {
                    ".visible" => Linkage::Visible,
                    ".extern" => Linkage::Extern,
                    ".weak" => Linkage::Weak,
                    _ => Linkage::Common,
                };
                let variables = self.cursor.declarations(start, linkage)?;
                into.extend(variables.into_iter().map(Statement::Variable));
            }
            _ if VariableSpace::from_directive(text).is_some() => {
                let variables = self.cursor.declarations(start, Linkage::Local)?;
                into.extend(variables.into_iter().map(Statement::Variable));
            }
            _ => into.push(Statement::Other(self.unknown_directive()?)),
        }
        Ok(())
    }

    /// `.loc file line column [, function_name label[+n], inlined_at f l c]`.
    /// No `;` ends it, nor the newline: only a comma carries it on, and an
    /// instruction may follow on the same line (measured).
    fn loc(&mut self) -> Step<Loc<'a>> {
        let start = self.cursor.token.start;
        self.cursor.bump();
        let [file, line, column] = self.three("after `.loc`")?;
        let rest_start = self.cursor.previous_end;
        let mut inlined_at = None;
        while self.cursor.eat(b',') {
            let (word, _) =
                self.cursor
                    .word("`function_name` or `inlined_at`", "in `.loc`", LINE_HELP)?;
            if word == "inlined_at" {
                let [file, line, column] = self.three("after `inlined_at`")?;
                inlined_at = Some((file, line, column));
            } else {
                // A label with an offset.
                self.cursor.word("a label", "in `.loc`", LINE_HELP)?;
                if self.cursor.eat(b'+') {
                    self.cursor
                        .small_integer("an offset", "after `+`", LINE_HELP)?;
                }
            }
        }
        let rest = self
            .cursor
            .slice(rest_start, self.cursor.previous_end)
            .trim();
        Ok(Loc {
            file,
            line,
            column,
            inlined_at,
            rest,
            span: self.cursor.since(start),
        })
    }

    fn three(&mut self, context: &str) -> Step<[u32; 3]> {
        let mut numbers = [0; 3];
        for number in &mut numbers {
            *number = self.cursor.small_integer("a number", context, LINE_HELP)?;
        }
        Ok(numbers)
    }

    fn guard(&mut self) -> Step<Guard<'a>> {
        let start = self.cursor.token.start;
        self.cursor.bump();
        let negated = self.cursor.eat(b'!');
        let help = "Write `@%p1` or `@!%p1` before the instruction.";
        let (register, _) = self
            .cursor
            .word("a predicate register", "after `@`", help)?;
        Ok(Guard {
            negated,
            register,
            span: self.cursor.since(start),
        })
    }

    /// An instruction whose opcode has been passed. `ld .param .u64` is legal
    /// too: blanks before the dots belong to the opcode.
    #[inline]
    fn instruction(
        &mut self,
        guard: Option<Guard<'a>>,
        mut text: &'a str,
        mut span: Span,
        start: u32,
    ) -> Step<Instruction<'a>> {
        while self.cursor.token.kind == TokenKind::Directive {
            self.cursor.bump();
            span.end = self.cursor.previous_end;
            text = self.cursor.slice(span.start, span.end);
        }
        let opcode = Opcode::new(text, span);
        self.operands.clear();
        self.cursor.in_call = opcode.mnemonic() == Mnemonic::Call;
        self.cursor
            .operands(&mut self.operands, b';', "after an operand")?;
        self.cursor.bump();
        let operands = self.operands.drain(..).collect();
        Ok(Instruction {
            guard,
            opcode,
            operands,
            span: self.cursor.since(start),
        })
    }
}
