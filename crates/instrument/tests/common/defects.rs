//! Makes defects in instrumented text, which the verifier must refuse.

/// An edit: the first text after a mark, and what stands there instead.
pub type Edit = (&'static str, &'static str, &'static str);

/// What is wrong, how it is made, and what the verifier says; `|` between
/// alternatives.
pub type Defect = (&'static str, &'static [Edit], &'static str);

/// Makes each defect in the instrumented text of a module.
pub fn refuse_each(source: &str, defects: &[Defect]) {
    let done = super::instrument("the module without defects", source);
    let good = &done.text;
    let mut wrong = Vec::new();
    for (what, edits, reason) in defects {
        let mut text = good.clone();
        for (mark, from, to) in *edits {
            let start = text
                .find(mark)
                .unwrap_or_else(|| panic!("{what}: no `{mark}` in\n{text}"));
            let at = text[start..]
                .find(from)
                .unwrap_or_else(|| panic!("{what}: no `{from}` after `{mark}` in\n{text}"));
            let at = start + at;
            text.replace_range(at..at + from.len(), to);
        }
        match instrument::verify(source, &text, &done.entries) {
            Ok(()) => wrong.push(format!("accepted: {what}")),
            Err(errors) => {
                let is_for = |part: &str| errors.iter().any(|e| e.message.contains(part));
                if !reason.split('|').any(is_for) {
                    wrong.push(format!("{what}: not `{reason}`, but {errors:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
