//! Whether a program's source may query the size of its images. A padded image
//! may take the place of one only in a kernel that cannot notice.
//!
//! A call is found by its name, which is a token of the source, of a file that
//! it includes, or of the build options, or which the preprocessor pastes from
//! several tokens. A file that cannot be read may contain any call.

use rustc_hash::FxHashSet;

/// Functions whose results depend on the size of an image.
const ASKING: [&str; 5] = [
    "get_image_width",
    "get_image_height",
    "get_image_depth",
    "get_image_dim",
    "get_image_array_size",
];

/// Files that may include each other, at most.
const MOST_FILES: usize = 1000;

/// What a text holds that matters here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Scanned {
    /// Identifiers and numbers.
    words: FxHashSet<String>,
    /// Whether tokens are put together.
    pastes: bool,
    /// Names of included files; `None`: one that is a macro's.
    includes: Vec<Option<String>>,
}

/// Whether a program may query the size of an image. `read` returns the texts
/// of all files that an include may refer to; none if there is none.
pub fn may_ask(source: &str, options: &str, read: &dyn Fn(&str) -> Vec<String>) -> bool {
    // Quotes in options are those of a shell, not of C.
    let mut all = scan(&options.replace(['"', '\''], " "));
    all.includes.clear();
    let mut texts = vec![source.to_owned()];
    let mut seen = FxHashSet::default();
    while let Some(text) = texts.pop() {
        let scanned = scan(&text);
        all.words.extend(scanned.words);
        all.pastes |= scanned.pastes;
        for name in scanned.includes {
            let Some(name) = name else { return true };
            if !seen.insert(name.clone()) {
                continue;
            }
            let found = read(&name);
            if found.is_empty() || seen.len() > MOST_FILES {
                return true;
            }
            texts.extend(found);
        }
    }
    ASKING
        .iter()
        .any(|name| all.words.contains(*name) || all.pastes && is_made_of(name, &all.words))
}

/// Whether words put one after the other give `name`.
fn is_made_of(name: &str, words: &FxHashSet<String>) -> bool {
    // Whether this many first bytes consist of words.
    let mut made = vec![false; name.len() + 1];
    made[0] = true;
    for end in 1..=name.len() {
        made[end] = (0..end).any(|start| made[start] && words.contains(&name[start..end]));
    }
    made[name.len()]
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

fn scan(text: &str) -> Scanned {
    // Lines that are continued are one line.
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    let mut scanned = Scanned::default();
    let mut rest = text.as_str();
    // Whether this line holds only white space so far.
    let mut starts = true;
    while let Some(first) = rest.chars().next() {
        if first == '\n' {
            starts = true;
            rest = &rest[1..];
        } else if first.is_whitespace() {
            rest = &rest[first.len_utf8()..];
        } else if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.find("*/").map_or("", |end| &comment[end + 2..]);
        } else if let Some(after) = rest.strip_prefix("##").or(rest.strip_prefix("%:%:")) {
            scanned.pastes = true;
            starts = false;
            rest = after;
        } else if let Some(after) = rest.strip_prefix('#').or(rest.strip_prefix("%:")) {
            rest = if starts {
                directive(after, &mut scanned)
            } else {
                after
            };
            starts = false;
        } else if first == '"' || first == '\'' {
            rest = after_literal(&rest[1..], first);
            starts = false;
        } else if is_word(first) {
            let end = rest.find(|character| !is_word(character));
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            scanned.words.insert(word.to_owned());
            starts = false;
            rest = after;
        } else {
            starts = false;
            rest = &rest[first.len_utf8()..];
        }
    }
    scanned
}

/// The text behind a literal whose opening quote was read; a literal ends at
/// the latest with its line.
fn after_literal(text: &str, quote: char) -> &str {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            '\n' => return &text[at..],
            '\\' if !escaped => escaped = true,
            character if character == quote && !escaped => return &text[at + 1..],
            _ => escaped = false,
        }
    }
    ""
}

/// Reads a directive behind its `#`, as far as it matters, and returns the
/// rest.
fn directive<'a>(text: &'a str, scanned: &mut Scanned) -> &'a str {
    let text = text.trim_start_matches([' ', '\t']);
    let end = text.find(|character| !is_word(character));
    let (name, after) = text.split_at(end.unwrap_or(text.len()));
    if !["include", "include_next", "import"].contains(&name) {
        // Its words count as all others do.
        return text;
    }
    let line = after.find('\n').map_or(after, |end| &after[..end]);
    let file = line.trim();
    let inside = |open: char, close: char| {
        let file = file.strip_prefix(open)?;
        Some(file[..file.find(close)?].to_owned())
    };
    scanned
        .includes
        .push(inside('"', '"').or_else(|| inside('<', '>')));
    &after[line.len()..]
}

/// Folders that the options add to the search for included files.
pub fn folders(options: &str) -> Vec<&str> {
    let mut folders = Vec::new();
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        let folder = match word.strip_prefix("-I") {
            Some("") => words.next(),
            other => other,
        };
        folders.extend(folder.map(|folder| folder.trim_matches(['"', '\''])));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(source: &str) -> bool {
        may_ask(source, "", &|_| Vec::new())
    }

    #[test]
    fn only_a_call_s_name_is_a_call() {
        assert!(alone("int w = get_image_width(image);"));
        assert!(alone("#define SIZE get_image_dim\n"));
        assert!(alone("get_image_\\\nheight(image)"));
        for quiet in [
            "// get_image_width\n int include;",
            "/* #include \"x\" ## get_image_width */ int x;",
            "printf(\"get_image_width \\\" #include ##\");",
            "char c = '\"'; /* get_image_dim */",
            "get_image_channel_order(image)",
            "my_get_image_width(image) + get_image_width_of(image)",
            "get_image_",
            "int x; # include",
            "#pragma unroll\n#define TWICE(x) x##x\n int g, h;",
            "",
        ] {
            assert!(!alone(quiet), "{quiet}");
        }
    }

    #[test]
    fn names_may_be_put_together() {
        let paste = "#define OF(what) get_image_##what\n";
        assert!(!alone(paste));
        assert!(alone(&format!("{paste} OF(width)(image)")));
        assert!(alone("#define A(x, y) x %:%: y\n A(get, _image_dim)"));
        assert!(may_ask(paste, "-DW=height", &|_| Vec::new()));
        // Without pasting these are words like others.
        assert!(!alone("get_image_ width"));
    }

    #[test]
    fn what_is_included_is_read() {
        let read = |name: &str| match name {
            "asks.h" => vec!["#include <quiet.h>\nget_image_width(i)".to_owned()],
            "quiet.h" => vec!["#include \"quiet.h\"\nint x;".to_owned()],
            _ => Vec::new(),
        };
        let ask = |source| may_ask(source, "", &read);
        assert!(!ask("# include \"quiet.h\" // once\nint y;"));
        assert!(ask("#include <asks.h>"));
        assert!(ask("#include \"missing.h\""));
        assert!(ask("#include MACRO"));
        assert!(!ask("int include; // #include \"missing.h\""));
    }

    #[test]
    fn options_count() {
        let none = |_: &str| Vec::new();
        assert!(may_ask("W(i)", "-D W=get_image_width", &none));
        assert!(may_ask("W(i)", "'-DW=get_image_width'", &none));
        assert!(!may_ask("W(i)", "-DW=x -I include", &none));
        assert_eq!(folders("-I a -DX -I\"b\" -cl-fast -Ic"), ["a", "b", "c"]);
    }
}
