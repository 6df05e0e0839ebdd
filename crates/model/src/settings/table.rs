//! The table of settings, with one row for each. Everything else about settings
//! is derived from it: [`Settings`] and its defaults, the syntax of
//! `RINGFENCE_OPTIONS`, the options of `ringfence run` with their help texts,
//! and `docs/options.md`.
//!
//! A row has, in this order: the effect of the setting, as the help text has
//! it; its name; the field; its type; its default; the form of its value; its
//! spelling on the command line; and the meaning of the default, if its text
//! does not show it.

use super::form::{
    Budget, Bytes, FILE, Form, Milliseconds, Number, OFF, Pattern, SWITCH, Text, U8, U32, U64,
    Unset, Words,
};
use super::{
    ApiErrors, CanaryChecker, CanaryPattern, CommandOption, DeviceKind, LeakCheck, MemoryBudget,
    PagesPlace, Protections, Prove, Section, Setting, ShadowLoads,
};
use crate::layout::shadow::{Encoding, MIN_REDZONE};
use crate::{Checked, exit_code};
use CommandOption::{Flag, Negation, Value};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

macro_rules! settings {
    (
        $( $title:literal {
            $(
                $(#[doc = $help:literal])+
                $name:literal $field:ident: $type:ty = $default:expr, $form:expr, $option:expr $(, $words:literal)?;
            )+
        } )+
        internal {
            $( $(#[$attribute:meta])+ $internal:ident: $internal_type:ty = $internal_default:expr; )+
        }
    ) => {
        /// Settings of one run.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
        pub struct Settings {
            $( $(
                $(#[doc = $help])+
                #[serde(rename = $name)]
                pub $field: $type,
            )+ )+
            $( $(#[$attribute])+ pub $internal: $internal_type, )+
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings {
                    $( $( $field: $default, )+ )+
                    $( $internal: $internal_default, )+
                }
            }
        }

        /// All settings, in sections.
        pub const SECTIONS: &[Section] = &[
            $( Section {
                title: $title,
                settings: &[
                    $( Setting {
                        name: $name,
                        help: concat!($($help),+).trim_ascii(),
                        option: $option,
                        default_words: &[ $($words)? ],
                        expected: || Form::<$type>::expected(&$form),
                        set: |settings, text| {
                            Form::<$type>::parse(&$form, text).map(|value| settings.$field = value)
                        },
                        get: |settings| $form.text(&settings.$field),
                    }, )+
                ],
            }, )+
        ];
    };
}

settings! {
"Reports" {
    /// Exit code when there are findings; 0 keeps the program's own exit code.
    "error-exitcode" error_exitcode: u8 = exit_code::FINDINGS, U8, Value("CODE");

    /// How many findings are printed as text at most; the rest is only counted.
    "print-limit" print_limit: u32 = 100, U32, Value("N");

    /// File for the text report. `%p` in its name stands for the process id, and
    /// `%q{VAR}` for the environment variable VAR.
    "log-file" log_file: Option<String> = None, FILE, Value("FILE"), "standard error";

    /// File for the report as JSON.
    "json" json: Option<PathBuf> = None, FILE, Value("FILE");

    /// File for the report as SARIF 2.1.0, for code scanning.
    "sarif" sarif: Option<PathBuf> = None, FILE, Value("FILE");

    /// File for the report as JUnit XML, for continuous integration.
    "junit" junit: Option<PathBuf> = None, FILE, Value("FILE");

    /// File for the time that each kernel takes on the device, as JSON
    /// (`docs/time-kernels.md`). With `--no-check`, these are the program's own times.
    "time-kernels" time_kernels: Option<PathBuf> = None, FILE, Value("FILE");

    /// File of known findings, which are counted but not reported; `ringfence
    /// explain suppressions` describes the file.
    "suppressions" suppressions: Option<PathBuf> = None, FILE, Value("FILE");

    /// Prints an entry for the file of known findings after each finding.
    "gen-suppressions" gen_suppressions: bool = false, SWITCH, Flag;

    /// Frames kept of each call stack of the host; 0 captures no call stacks.
    "num-callers-host" num_callers_host: u32 = 16, U32, Value("N");

    /// For how many launches of each kernel the call stack of the host is
    /// captured, which takes microseconds for each.
    "launch-backtraces" launch_backtraces: u32 = 32, U32, Value("N");
}
"What is checked" {
    /// Protections that are on: bounds (exact bounds, for CUDA), canary (canaries
    /// around buffers, for CUDA and OpenCL), watch (canaries are also verified while
    /// kernels run, for CUDA), pages (buffers end at unmapped pages, for CUDA), shadow
    /// (one byte of shadow memory for a block of memory, for CUDA, in place of all
    /// others). auto is bounds, canary and pages.
    "protect" protect: Protections = Protections::DEFAULT, Protections::FORM, Value("LIST");

    /// Whether anything is checked; off, the program runs under the library without
    /// checks.
    "check" check: bool = true, SWITCH, Negation {
        option: "no-check",
        help: "Checks nothing: the program runs under the library without checks",
    };

    /// Which accesses are checked: those to some state spaces, and of them no reads or no
    /// writes.
    "check-only" check_only: Checked = Checked::ALL, Checked::FORM, Value("LIST");

    /// Whether a launch whose accesses are all proved in bounds runs without
    /// checks; verify proves, and checks all the same.
    "prove" prove: Prove = Prove::On, Words(&[
        (Prove::On, super::form::ON), (Prove::Off, OFF), (Prove::Verify, &["verify"]),
    ]), Value("WHEN");

    /// Whether accesses of a loop are checked before it, those of all passes at once,
    /// where their addresses can be computed there.
    "hoist" hoist: bool = true, SWITCH, Value("ON|OFF");

    /// Checks only kernels whose mangled or demangled name contains this text.
    "kernel-name" kernel_name: Option<String> = None, Unset(Text("part of a kernel's name")),
        Value("TEXT"), "all kernels";

    /// Does not check kernels whose mangled or demangled name contains this text.
    "kernel-name-exclude" kernel_name_exclude: Option<String> = None,
        Unset(Text("part of a kernel's name")), Value("TEXT");

    /// How many launches are skipped before launches are checked.
    "launch-skip" launch_skip: u64 = 0, U64, Value("N");

    /// How many launches are checked after the skipped ones; 0 checks all.
    "launch-count" launch_count: u64 = 0, U64, Value("N");

    /// What happens to a bad copy, memset or free of the host, which is reported:
    /// refuse answers it with an error in place of making it, pass makes it, off does
    /// not check it.
    "api-errors" api_errors: ApiErrors = ApiErrors::Refuse, Words(&[
        (ApiErrors::Refuse, &["refuse"]), (ApiErrors::Pass, &["pass"]), (ApiErrors::Off, OFF),
    ]), Value("WHAT");

    /// Whether memory that is never freed is reported.
    "leak-check" leak_check: LeakCheck = LeakCheck::No, Words(&[
        (LeakCheck::Full, &["full"]), (LeakCheck::No, &["no", "off", "0", "false"]),
    ]), Value("WHICH");

    /// How many bytes of freed memory are kept from reuse, so that accesses after
    /// the free are found; 0 keeps none.
    "quarantine-size" quarantine_size: u64 = 256 << 20, Bytes(0..=u64::MAX), Value("BYTES");

    /// Whether CUDA buffers above 1 MiB lie at addresses that are not used again
    /// while others are left of 8 TiB. Their memory goes back to the device when they
    /// are freed, and a use after that is found however late. `--protect shadow` and
    /// `pages` do so in any case. Other processes cannot import such memory.
    "keep-addresses" keep_addresses: bool = false, SWITCH, Value("ON|OFF");
}
"Canaries" {
    /// The smallest canary on either side of a buffer, in bytes.
    "canary-size" canary_size: u64 = 4096, Bytes(16..=1 << 30), Value("BYTES");

    /// What canaries hold: random bytes, which differ from buffer to buffer and from
    /// run to run, or one byte everywhere.
    "canary-pattern" canary_pattern: CanaryPattern = CanaryPattern::Random, Pattern,
        Value("PATTERN");

    /// Whether CUDA buffers also have a canary before them; their addresses are then
    /// not those that the driver chose.
    "canary-head" canary_head: bool = true, SWITCH, Value("ON|OFF");

    /// How many percent of the time that CUDA kernels run may be spent on verifying
    /// canaries between them; 100 verifies them after every kernel.
    "canary-budget" canary_budget: u32 = 1, Number { what: "a percentage", range: 1..=100 },
        Value("PERCENT");

    /// Who verifies canaries in OpenCL programs: host, device (a kernel), or auto,
    /// which measures both while the program runs and uses the faster one.
    "canary-checker" canary_checker: CanaryChecker = CanaryChecker::Auto, Words(&[
        (CanaryChecker::Auto, &["auto"]), (CanaryChecker::Host, &["host"]),
        (CanaryChecker::Device, &["device"]),
    ]), Value("WHO");

    /// How many milliseconds the guard kernel of `--protect watch` stays on the
    /// device at a time.
    "watch-slice" watch_slice: Duration = Duration::from_millis(250), Milliseconds(1..=60_000),
        Value("MILLISECONDS");
}
"Shadow memory" {
    /// How many bytes of memory one byte of shadow memory stands for.
    "shadow-encoding" shadow_encoding: Encoding = Encoding::Block256, Encoding::FORM,
        Value("BYTES");

    /// When checks load shadow memory: auto, where the bounds of a pointer parameter do
    /// not show that the access is inside; always; or never, which finds nothing in global
    /// memory and serves to measure what the loads cost.
    "shadow-loads" shadow_loads: ShadowLoads = ShadowLoads::Auto, Words(&[
        (ShadowLoads::Auto, &["auto"]), (ShadowLoads::Always, &["always"]),
        (ShadowLoads::Never, &["never"]),
    ]), Value("WHEN");

    /// How many percent of its size a buffer has as redzone on either side.
    "redzone-percent" redzone_percent: u32 = 50, Number { what: "a percentage", range: 0..=400 },
        Value("PERCENT");

    /// The smallest redzone on either side of a buffer, in bytes.
    "redzone-min" redzone_min: u64 = MIN_REDZONE, Bytes(MIN_REDZONE..=1 << 30), Value("BYTES");

    /// The largest redzone on either side of a buffer, in bytes: redzones take
    /// memory.
    "redzone-max" redzone_max: u64 = 1 << 20, Bytes(MIN_REDZONE..=1 << 30), Value("BYTES");
}
"Pages" {
    /// Which end of a buffer lies at an unmapped page under `--protect pages`.
    "pages-place" pages_place: PagesPlace = PagesPlace::End, Words(&[
        (PagesPlace::End, &["end"]), (PagesPlace::Start, &["start"]),
    ]), Value("WHERE");

    /// What the address of a buffer is a multiple of. CUDA promises 512 bytes, for
    /// textures; up to so many bytes, less one, lie between the end of a buffer and
    /// the unmapped page, and hold a canary. Programs must bear a smaller number.
    "pages-align" pages_align: u64 = 512, Words(&[
        (512, &["512"]), (256, &["256"]), (128, &["128"]), (64, &["64"]), (32, &["32"]),
        (16, &["16"]), (8, &["8"]), (4, &["4"]), (2, &["2"]), (1, &["1"]),
    ]), Value("BYTES");

    /// How much device memory may be spent so that buffers below 1 MiB, which would
    /// share 2 MiB, have them alone. While less than half of it is spent, each buffer
    /// has; after that a sample of them, by `--seed`; the others share.
    "pages-budget" pages_budget: MemoryBudget = MemoryBudget::Percent(25), Budget, Value("BYTES|PERCENT");

    /// The smallest buffer that may have 2 MiB alone; smaller ones share.
    "pages-from" pages_from: u64 = 0, Bytes(0..=u64::MAX), Value("BYTES");

    /// The largest buffer that may have 2 MiB alone, of those below 1 MiB.
    "pages-to" pages_to: u64 = 1 << 20, Bytes(0..=u64::MAX), Value("BYTES");
}
"Loading" {
    /// Folder in which instrumented modules are kept, so that the next run does not
    /// instrument them again. It is made if it is not there, and must belong to the
    /// user alone (mode 700). Many processes may use it at a time. For tenants, `ringfence
    /// manager` has an option of the same name.
    "cache-dir" cache_dir: Option<PathBuf> = None, Unset(Text("the path of a folder")),
        Value("FOLDER"), "none: each run instruments anew";

    /// How many bytes of files that folder may hold; those that were not used for
    /// longest go. A module that would take more than a quarter of it is not kept.
    "cache-size" cache_size: u64 = 1 << 30, Bytes(0..=u64::MAX), Value("BYTES");
}
"At a finding" {
    /// Ends the program at the first finding.
    "halt-on-error" halt_on_error: bool = false, SWITCH, Flag;

    /// Stops a kernel where a thread first fails a check, before the access: a
    /// debugger shows the line, and without a debugger the launch fails.
    "trap" trap: bool = false, SWITCH, Flag;
}
"Device" {
    /// Which device runs the kernels: the GPU, the CPU device, which executes PTX, or
    /// as a tenant a part of the device that `ringfence manager` owns
    /// (`docs/sharing.md`).
    "device" device: Option<DeviceKind> = None, Unset(Words(&[
        (DeviceKind::Gpu, &["gpu"]), (DeviceKind::Cpu, &["cpu"]), (DeviceKind::Tenant, &["tenant"]),
    ])), Value("DEVICE"), "the GPU where there is one";

    /// On a GPU, has the driver write a core dump when a kernel fails, from which the
    /// finding names the kernel, the thread and the address. The driver must be of CUDA
    /// 12.5 or newer.
    "core-dump" core_dump: bool = false, SWITCH, Value("ON|OFF");

    /// Path of the real libcuda.so.1.
    "driver" driver: Option<PathBuf> = None, Unset(Text("the path of libcuda.so.1")),
        Value("FILE"), "the driver that the system's loader finds";

    /// Path of the manager's socket, for a tenant.
    "socket" socket: Option<PathBuf> = None, FILE, Value("FILE"), "the system's manager, else the user's";

    /// Bytes of device memory that a tenant needs; 0 is as much as the manager gives.
    "tenant-memory" tenant_memory: u64 = 0, Bytes(0..=u64::MAX), Value("BYTES");

    /// Seed of the CPU device's warp schedule, of random canaries and of the sample of
    /// `--pages-budget`; with 0, canaries and the sample differ from run to run.
    "seed" seed: u64 = 0, U64, Value("N");

    /// How many threads the CPU device has; 0 is one for each core.
    "cpu-threads" cpu_threads: u32 = 0, U32, Value("N");

    /// Whether kernels of the CPU device may access all memory of the program, as on
    /// GPUs with pageable memory access (ATS, HMM).
    "cpu-pageable" cpu_pageable: bool = false, SWITCH, Value("ON|OFF");
}
internal {
    /// Directory where processes of one run leave their results for the
    /// command; set by `ringfence run`.
    session: Option<PathBuf> = None;
}
}
