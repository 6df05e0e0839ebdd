//! What several tests share: where the toolchain is, and what must hold of
//! any PTX that a compiler wrote.
#![allow(dead_code, missing_docs)]

use std::path::{Path, PathBuf};

use ptx::table::classify;

/// All files below `folder` with this extension, in a fixed order.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// What is wrong with how the crate reads `source`: it must parse, its tokens
/// must be its text, no edit must change nothing, spans must nest, and every
/// instruction with a bracketed operand must be classified.
pub fn defects(source: &str) -> Vec<String> {
    let mut defects = Vec::new();
    let tokens = ptx::tokenize(source);
    let joined: String = tokens.iter().map(|token| token.span.text(source)).collect();
    if joined != source {
        defects.push("the tokens' texts joined are not the source".to_string());
    }
    if ptx::Edits::new().apply(source) != source {
        defects.push("no edits changed the source".to_string());
    }
    let module = match ptx::parse(source) {
        Ok(module) => module,
        Err(errors) => {
            defects.extend(errors.iter().map(ToString::to_string));
            return defects;
        }
    };
    for variable in module.variables() {
        if let Err(errors) = variable.initial_value(source) {
            defects.push(format!("initializer of {}: {}", variable.name, errors[0]));
        }
    }
    for function in module.functions() {
        if let Some(body) = &function.body {
            nesting(source, body, &mut defects);
        }
        if function.name_span.text(source) != function.name {
            defects.push(format!("span of the name of {}", function.name));
        }
        for instruction in function.instructions() {
            let text = instruction.span.text(source);
            if !text.ends_with(';')
                || instruction.opcode.span.text(source) != instruction.opcode.text
            {
                defects.push(format!("span of `{text}`"));
            }
            match classify(instruction) {
                Some(info) => {
                    if info.roles.len() != instruction.operands.len() {
                        defects.push(format!("{} roles for `{text}`", info.roles.len()));
                    }
                }
                None => defects.push(format!("unclassified: `{text}`")),
            }
        }
    }
    defects
}

/// Statements must follow each other inside their scope.
fn nesting(source: &str, block: &ptx::Block<'_>, defects: &mut Vec<String>) {
    let mut at = block.span.start + 1;
    let mut previous = ptx::Span::default();
    for statement in &block.statements {
        let span = statement.span();
        // Several names of one declaration share its span.
        if span != previous && (span.start < at || span.end <= span.start) {
            defects.push(format!("overlap at `{}`", span.text(source)));
        }
        (at, previous) = (span.end, span);
        if let ptx::Statement::Block(inner) = statement {
            nesting(source, inner, defects);
        }
    }
    if block.span.end <= at || !block.span.text(source).ends_with('}') {
        defects.push(format!("scope that ends at {}", block.span.end));
    }
}

/// Fails with all that is wrong with `files`, or if there are none.
pub fn assert_sound(files: &[PathBuf]) {
    assert!(!files.is_empty(), "no files to test");
    let mut report = String::new();
    for path in files {
        let source =
            std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for defect in defects(&source).iter().take(10) {
            report += &format!("{}: {defect}\n", path.display());
        }
    }
    assert!(report.is_empty(), "{report}");
}
