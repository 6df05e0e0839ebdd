//! What a Makefile would do to build a program, as `make --dry-run` prints it:
//! sources and flags of the first program that is linked. Functions of make,
//! included files and pattern rules are make's own this way; nothing is built.

use super::collection::{is_source, kept_flags};
use crate::process;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How a program is built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// Sources, from the program's folder.
    pub sources: Vec<String>,
    /// Flags that the program may need, and libraries.
    pub flags: Vec<String>,
}

/// Deadline of a dry run.
const LIMIT: Duration = Duration::from_secs(20);

/// Compilers of C and C++, by the name of their command.
const COMPILERS: &[&str] = &["cc", "gcc", "clang", "c++", "g++", "clang++"];

/// The recipe of a folder with a Makefile; `None` if make is not installed, or
/// prints no command that links a program.
pub fn of_makefile(folder: &Path) -> Option<Recipe> {
    let mut make = Command::new("make");
    make.args(["--dry-run", "--always-make", "--keep-going"])
        .current_dir(folder);
    let outcome = process::run(&mut make, LIMIT).ok()?;
    linked(&outcome.stdout)
}

/// The first program that these commands link.
fn linked(commands: &str) -> Option<Recipe> {
    let mut objects: BTreeMap<String, Recipe> = BTreeMap::new();
    for command in commands.replace("\\\n", " ").lines() {
        for command in command.split(['\n', ';']).flat_map(|part| part.split("&&")) {
            let words = joined(command.split_whitespace().map(bare));
            let Some((compiler, words)) = words.split_first() else {
                continue;
            };
            let compiler = compiler.rsplit('/').next().unwrap_or(compiler);
            if !COMPILERS.contains(&compiler) {
                continue;
            }
            let (own, target) = own(compiler, words);
            if words.iter().any(|word| word == "-c") {
                for source in &own.sources {
                    let object = target.clone().unwrap_or_else(|| object_of(source));
                    let recipe = Recipe {
                        sources: vec![source.clone()],
                        flags: own.flags.clone(),
                    };
                    objects.insert(object, recipe);
                }
                continue;
            }
            let mut recipe = own;
            for part in words.iter().filter_map(|word| objects.get(plain(word))) {
                add(&mut recipe.sources, &part.sources);
                add(&mut recipe.flags, &part.flags);
            }
            if !recipe.sources.is_empty() {
                return Some(recipe);
            }
        }
    }
    None
}

/// What one command says itself, and what it writes.
fn own(compiler: &str, words: &[String]) -> (Recipe, Option<String>) {
    let mut recipe = Recipe::default();
    let mut target = None;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "-o" {
            target = rest.next().map(|word| plain(word).to_owned());
        } else if is_source(word) && !word.starts_with('-') {
            add(&mut recipe.sources, &[plain(word).to_owned()]);
        }
    }
    // A C++ compiler takes C for C++.
    let is_c = |source: &String| source.ends_with(".c");
    if compiler.ends_with("++") && recipe.sources.iter().any(is_c) {
        recipe.flags.push("-xc++".to_owned());
    }
    // Of no concern where nvcc is not the compiler.
    let kept = kept_flags(words).into_iter();
    let kept: Vec<String> = kept.filter(|word| word != "-Xcompiler").collect();
    add(&mut recipe.flags, &kept);
    let libraries = words.iter().filter(|word| word.starts_with("-l"));
    add(
        &mut recipe.flags,
        &libraries.cloned().collect::<Vec<String>>(),
    );
    (recipe, target)
}

fn add(to: &mut Vec<String>, more: &[String]) {
    for word in more {
        if !to.contains(word) {
            to.push(word.clone());
        }
    }
}

/// Options whose value is the next word, with it as one.
fn joined(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        match all.last_mut() {
            Some(option) if ["-I", "-D"].contains(&option.as_str()) && !word.starts_with('-') => {
                option.push_str(&word);
            }
            _ => all.push(word),
        }
    }
    all
}

/// A word as the shell would pass it on: `-DNAME=\"text\"` keeps its quotes.
fn bare(word: &str) -> String {
    let word = word.replace("\\\"", "\u{0}");
    word.replace(['"', '\''], "").replace('\u{0}', "\"")
}

fn plain(word: &str) -> &str {
    word.strip_prefix("./").unwrap_or(word)
}

/// The name of the object that a compiler writes by default.
fn object_of(source: &str) -> String {
    let name = source.rsplit('/').next().unwrap_or(source);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("{stem}.o")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn one_command_is_a_recipe() {
        let recipe = linked(
            "echo building a.c\n\
             /usr/bin/g++ -g -O3 -fopenmp a.cpp ./timer.cc ../util/timing.c -o a.out -I/usr/cuda -I -L \
             -lOpenCL -I ../util -DTIMING -D SIZE=16 -I ../util\n",
        )
        .unwrap();
        assert_eq!(recipe.sources, words("a.cpp timer.cc ../util/timing.c"));
        assert_eq!(
            recipe.flags,
            words("-xc++ -fopenmp -I../util -DTIMING -DSIZE=16 -lOpenCL")
        );
    }

    #[test]
    fn objects_bring_their_sources_and_flags() {
        let recipe = linked(
            "gcc -DA -c main.c -o ./main.o\ngcc -I../util ./util/num.c \\\n  -c -DB -o ./util/num.o\n\
             gcc -c unused.c\ngcc main.o ./util/num.o -lm -lOpenCL -o x\ngcc -o second other.c\n",
        )
        .unwrap();
        assert_eq!(recipe.sources, words("main.c util/num.c"));
        assert_eq!(recipe.flags, words("-lm -lOpenCL -DA -I../util -DB"));
    }

    #[test]
    fn nothing_that_links_is_no_recipe() {
        assert_eq!(linked("nvcc a.cu -o a\ngcc -c a.c\nrm -f a.c\n"), None);
    }

    #[test]
    fn text_in_a_macro_keeps_its_quotes() {
        assert_eq!(bare("-DNAME=\\\"a.cl\\\""), "-DNAME=\"a.cl\"");
        assert_eq!(bare("'-DX=\"y\"'"), "-DX=y");
    }
}
