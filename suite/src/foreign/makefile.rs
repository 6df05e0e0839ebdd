//! The few things that a collection's Makefile says about a program: its
//! variables, with conditions resolved, and the lines of a rule.
//!
//! Not `make`: functions of make other than substitution are empty, and
//! nothing is run.

use std::collections::BTreeMap;

/// The variables and rules of one Makefile.
#[derive(Debug, Default)]
pub struct Makefile {
    variables: BTreeMap<String, String>,
    rules: BTreeMap<String, Vec<String>>,
}

/// Expansions of expansions, at most.
const DEPTH: usize = 16;

impl Makefile {
    /// Reads a Makefile's text.
    pub fn parse(text: &str) -> Makefile {
        let mut makefile = Makefile::default();
        // For each open condition: whether its lines count, and whether an
        // earlier branch of it did.
        let mut conditions: Vec<(bool, bool)> = Vec::new();
        let mut targets: Vec<String> = Vec::new();
        for line in joined(text) {
            let words = line.trim_start();
            if let Some(rest) = words.strip_prefix("else") {
                if let Some((open, taken)) = conditions.last_mut() {
                    let earlier = *taken;
                    *open = false;
                    if !earlier {
                        let now = makefile.condition(rest.trim()).unwrap_or(true);
                        if let Some(last) = conditions.last_mut() {
                            *last = (now, now);
                        }
                    }
                }
                continue;
            }
            if words.split_whitespace().next() == Some("endif") {
                conditions.pop();
                continue;
            }
            if let Some(holds) = makefile.condition(words) {
                conditions.push((holds, holds));
                continue;
            }
            if conditions.iter().any(|(open, _)| !open) {
                continue;
            }
            if let Some(recipe) = line.strip_prefix('\t') {
                for target in &targets {
                    let recipes = makefile.rules.entry(target.clone()).or_default();
                    recipes.push(recipe.trim().to_owned());
                }
                continue;
            }
            let line = line.split(" #").next().unwrap_or_default();
            if line.trim_start().starts_with('#') {
                continue;
            }
            if !makefile.assign(line)
                && let Some((names, _)) = line.split_once(':')
            {
                targets = names.split_whitespace().map(str::to_owned).collect();
            }
        }
        makefile
    }

    /// A variable's value, expanded; empty when it is not set.
    pub fn variable(&self, name: &str) -> String {
        self.variables
            .get(name)
            .map(|value| self.expand(value))
            .unwrap_or_default()
    }

    /// The commands of a rule, expanded.
    pub fn commands(&self, target: &str) -> Vec<String> {
        self.rules
            .get(target)
            .into_iter()
            .flatten()
            .map(|command| self.expand(command))
            .collect()
    }

    fn assign(&mut self, line: &str) -> bool {
        let Some(position) = line.find('=') else {
            return false;
        };
        let (left, value) = (line[..position].trim_end(), line[position + 1..].trim());
        let (name, operator) = match left.chars().last() {
            Some(operator @ (':' | '+' | '?')) => {
                (left.trim_end_matches([':', '+', '?']), operator)
            }
            _ => (left, '='),
        };
        let name = name.trim().trim_start_matches("export ").trim();
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == ':') {
            return false;
        }
        match operator {
            '+' => {
                let old = self.variables.entry(name.to_owned()).or_default();
                *old = format!("{old} {value}");
            }
            '?' => {
                let entry = self.variables.entry(name.to_owned());
                entry.or_insert_with(|| value.to_owned());
            }
            ':' => {
                let value = self.expand(value);
                self.variables.insert(name.to_owned(), value);
            }
            _ => {
                self.variables.insert(name.to_owned(), value.to_owned());
            }
        }
        true
    }

    /// Whether a condition holds; `None` if the line is none.
    fn condition(&self, line: &str) -> Option<bool> {
        let (word, rest) = line.split_once([' ', '\t', '('])?;
        let wanted = match word {
            "ifeq" => true,
            "ifneq" => false,
            "ifdef" => return Some(!self.variable(rest.trim()).is_empty()),
            "ifndef" => return Some(self.variable(rest.trim()).is_empty()),
            _ => return None,
        };
        let rest = self.expand(line[word.len()..].trim());
        let inside = rest.trim_start_matches('(').trim_end_matches(')');
        let (left, right) = inside.split_once(',').unwrap_or((inside, ""));
        let bare = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
        Some((bare(left) == bare(right)) == wanted)
    }

    fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..DEPTH {
            let Some(next) = self.expand_once(&text) else {
                return text;
            };
            text = next;
        }
        text
    }

    /// `None`: there was nothing to expand.
    fn expand_once(&self, text: &str) -> Option<String> {
        let start = text.find("$(").or_else(|| text.find("${"))?;
        let rest = &text[start + 2..];
        let (open, close) = match text.as_bytes()[start + 1] {
            b'(' => ('(', ')'),
            _ => ('{', '}'),
        };
        let mut depth = 1;
        let end = rest.char_indices().find_map(|(at, c)| {
            depth += i32::from(c == open) - i32::from(c == close);
            (depth == 0).then_some(at)
        })?;
        let name = &rest[..end];
        let value = match name.split_once(':') {
            Some((name, change)) => {
                let (from, to) = change.split_once('=').unwrap_or((change, ""));
                let value = self.variable(name);
                let words = value.split_whitespace();
                let changed: Vec<String> = words
                    .map(|word| match word.strip_suffix(from) {
                        Some(stem) => format!("{stem}{to}"),
                        None => word.to_owned(),
                    })
                    .collect();
                changed.join(" ")
            }
            None => self.variables.get(name).cloned().unwrap_or_default(),
        };
        Some(format!("{}{value}{}", &text[..start], &rest[end + 1..]))
    }
}

/// The lines, with those that end in a backslash joined to the next.
fn joined(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        let (line, goes_on) = match line.trim_end().strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let whole = match open.take() {
            Some(before) => format!("{before} {}", line.trim_start()),
            None => line.to_owned(),
        };
        if goes_on {
            open = Some(whole);
        } else {
            lines.push(whole);
        }
    }
    lines.extend(open);
    lines
}

#[cfg(test)]
mod tests {
    use super::Makefile;

    #[test]
    fn variables_conditions_and_recipes_are_read() {
        let makefile = Makefile::parse(
            "CC = nvcc\nARCH = sm_60\nDEBUG=no\nprogram = main\nsource = a.cu \\\n  b.cu # both\n\
             obj = $(source:.cu=.o)\nCFLAGS := $(EXTRA) -std=c++17 -arch=$(ARCH)\n\
             ifeq ($(DEBUG),yes)\n  CFLAGS += -G\nelse\n  CFLAGS += -O3\nendif\n\
             ifdef MISSING\nCFLAGS += -DNO\nendif\n\
             $(program): $(obj)\n\t$(CC) $(obj) -o $@\n\
             run: $(program)\n\t$(LAUNCHER) ./$(program) 10 \\\n\t\t20\n",
        );
        assert_eq!(makefile.variable("source"), "a.cu  b.cu");
        assert_eq!(makefile.variable("obj"), "a.o b.o");
        assert_eq!(
            makefile.variable("CFLAGS").trim(),
            "-std=c++17 -arch=sm_60 -O3"
        );
        // Without a launcher its place is empty.
        assert_eq!(makefile.commands("run"), [" ./main 10  20"]);
    }

    #[test]
    fn a_variable_of_itself_ends() {
        let makefile = Makefile::parse("A = $(A) x\n");
        assert!(makefile.variable("A").ends_with('x'));
        assert_eq!(Makefile::parse("A = $(B").variable("A"), "$(B");
    }
}
