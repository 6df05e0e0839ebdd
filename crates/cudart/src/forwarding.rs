//! The source of `libcudart.so.13` and `libcudart.so.12`: libraries with
//! NVIDIA's names and symbol versions whose functions jump into
//! libringfence.so, which must be loaded already.

use crate::table::Version;
use model::exit_code::FAILED;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The inputs of one forwarding library; see [`Forwarding::compile`].
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// File name and SONAME, `libcudart.so.13`.
    pub soname: String,
    /// C source for x86-64.
    pub source: String,
    /// Linker version script.
    pub version_script: String,
}

/// Why a forwarding library was not built.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A file could not be written, or `cc` not started.
    #[error("cannot build {soname}: {source}")]
    Io {
        /// The library.
        soname: String,
        /// What the system said.
        source: io::Error,
    },
    /// The C compiler refused the source.
    #[error("cc refused the source of {soname}:\n{output}")]
    Refused {
        /// The library.
        soname: String,
        /// What the compiler said.
        output: String,
    },
}

impl Forwarding {
    /// Builds the library in `folder`, which is made if need be, with `cc`.
    /// Gives the library's path.
    pub fn compile(&self, folder: &Path) -> Result<PathBuf, CompileError> {
        let failed = |source| CompileError::Io {
            soname: self.soname.clone(),
            source,
        };
        let source = folder.join(format!("{}.c", self.soname));
        let script = folder.join(format!("{}.map", self.soname));
        let library = folder.join(&self.soname);
        std::fs::create_dir_all(folder).map_err(failed)?;
        std::fs::write(&source, &self.source).map_err(failed)?;
        std::fs::write(&script, &self.version_script).map_err(failed)?;
        let mut version_script = std::ffi::OsString::from("-Wl,--version-script=");
        version_script.push(&script);
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror"])
            .arg(format!("-Wl,-soname,{}", self.soname))
            .arg(version_script)
            .arg(&source)
            .arg("-o")
            .arg(&library)
            .output()
            .map_err(failed)?;
        if built.status.success() {
            return Ok(library);
        }
        let output = String::from_utf8_lossy(&built.stderr).into_owned();
        Err(CompileError::Refused {
            soname: self.soname.clone(),
            output,
        })
    }
}

/// The forwarding libraries of all versions.
pub fn libraries() -> Vec<Forwarding> {
    [Version::Twelve, Version::Thirteen]
        .map(forwarding_source)
        .into()
}

/// The forwarding library of one version.
pub fn forwarding_source(version: Version) -> Forwarding {
    let names = version.exports();
    let number = version.number();
    let soname = format!("libcudart.so.{number}");
    let mut source = format!(
        r#"/* Forwards the CUDA {number} runtime API to libringfence.so. Generated. */
#include <stdio.h>
#include <unistd.h>

extern void *ringfence_cudart_lookup(const char *name, unsigned version) __attribute__((weak));

__attribute__((visibility("hidden"))) void *ringfence_cudart_table[{count}];

static const char *const names[{count}] = {{
"#,
        count = names.len()
    );
    for name in names {
        let _ = writeln!(source, "    \"{name}\",");
    }
    let _ = write!(
        source,
        r#"}};

__attribute__((constructor)) static void fill(void) {{
    if (!ringfence_cudart_lookup) {{
        fprintf(stderr, "ringfence: this {soname} only works inside `ringfence run --device cpu`, which loads "
                        "libringfence.so; take its folder out of LD_LIBRARY_PATH\n");
        _exit({FAILED});
    }}
    for (unsigned i = 0; i < {count}; i++) {{
        ringfence_cudart_table[i] = ringfence_cudart_lookup(names[i], {number});
        if (!ringfence_cudart_table[i]) {{
            fprintf(stderr, "ringfence: libringfence.so and {soname} are of different builds: %s is missing\n", names[i]);
            _exit({FAILED});
        }}
    }}
}}

__asm__(
    ".text\n"
"#,
        count = names.len()
    );
    for (index, name) in names.iter().enumerate() {
        let _ = writeln!(
            source,
            "    \".globl {name}\\n.type {name},@function\\n.p2align 4\\n{name}: endbr64\\n jmp *ringfence_cudart_table+{}(%rip)\\n.size {name},.-{name}\\n\"",
            index * 8
        );
    }
    source.push_str(");\n");
    let mut version_script = format!("{soname} {{\nglobal:\n");
    for name in names {
        let _ = writeln!(version_script, "    {name};");
    }
    version_script.push_str("local:\n    *;\n};\n");
    Forwarding {
        soname,
        source,
        version_script,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn build(folder: &Path, version: Version) -> PathBuf {
        forwarding_source(version).compile(folder).unwrap()
    }

    #[test]
    fn exports_the_names_under_the_version() {
        for version in [Version::Twelve, Version::Thirteen] {
            let folder = tempfile::tempdir().unwrap();
            let library = build(folder.path(), version);
            let listed = Command::new("nm")
                .args(["-D", "--defined-only"])
                .arg(&library)
                .output()
                .unwrap();
            let listed = String::from_utf8(listed.stdout).unwrap();
            let exported: BTreeSet<_> = listed
                .lines()
                .filter_map(|line| line.split(" T ").nth(1))
                .map(str::to_string)
                .collect();
            let expected: BTreeSet<_> = version
                .exports()
                .iter()
                .map(|name| format!("{name}@@libcudart.so.{}", version.number()))
                .collect();
            assert_eq!(exported, expected);
        }
    }

    #[test]
    fn says_so_when_ringfence_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let library = build(folder.path(), Version::Thirteen);
        let source = folder.path().join("main.c");
        let program = folder.path().join("main");
        std::fs::write(
            &source,
            "int cudaGetLastError(void);\nint main(void) { return cudaGetLastError(); }\n",
        )
        .unwrap();
        let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
        rpath.push(folder.path());
        let built = Command::new("cc")
            .arg(&source)
            .arg(&library)
            .arg(rpath)
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        let run = Command::new(&program).output().unwrap();
        assert_eq!(run.status.code(), Some(FAILED.into()));
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(
            said.starts_with("ringfence: this libcudart.so.13 only works inside `ringfence run"),
            "{said}"
        );
    }

    /// The same program with a library that answers `ringfence_cudart_lookup`.
    #[test]
    fn calls_arrive_with_their_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let library = build(folder.path(), Version::Thirteen);
        let answer = folder.path().join("answer.c");
        std::fs::write(
            &answer,
            "#include <string.h>\nstatic int set(int n) { return n + 1; }\nstatic int none(void) { return 801; }\n\
             void *ringfence_cudart_lookup(const char *name, unsigned version) {\n\
             return version == 13 && !strcmp(name, \"cudaSetDevice\") ? (void *)set : (void *)none; }\n\
             int cudaSetDevice(int); int cudaGetLastError(void);\n\
             int main(void) { return cudaSetDevice(41) == 42 && cudaGetLastError() == 801 ? 0 : 1; }\n",
        )
        .unwrap();
        let program = folder.path().join("answer");
        let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
        rpath.push(folder.path());
        let built = Command::new("cc")
            .arg("-rdynamic")
            .arg(&answer)
            .arg(&library)
            .arg(rpath)
            .arg("-o")
            .arg(&program)
            .output();
        let built = built.unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        assert!(Command::new(&program).status().unwrap().success());
    }
}
