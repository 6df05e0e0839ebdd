//! The settings of a run: which there are ([`SECTIONS`], from `settings/table.rs`),
//! and how `RINGFENCE_OPTIONS` and the options of `ringfence run` set them.

pub(crate) mod form;
mod table;

use form::{Bytes, Flags, Form, flags};
use serde::{Deserialize, Serialize};
pub use table::{SECTIONS, Settings};

/// Which device the program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The real driver.
    Gpu,
    /// The CPU device that executes PTX.
    Cpu,
    /// A part of the device that a manager owns.
    Tenant,
}

/// The number of bytes that a text means, such as `64k`.
pub fn bytes(text: &str) -> Option<u64> {
    Form::<u64>::parse(&Bytes(0..=u64::MAX), text)
}

/// Whether memory that is never freed is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeakCheck {
    /// Not at all.
    No,
    /// What lives when its context or the process ends.
    Full,
}

/// What happens to a bad copy, set or free by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiErrors {
    /// The call is reported and not made; it returns the error for an invalid
    /// value.
    Refuse,
    /// It is reported and made.
    Pass,
    /// It is not looked at.
    Off,
}

/// Whether launches whose accesses can all be shown to be in bounds run
/// without checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prove {
    /// They do.
    On,
    /// Every launch is checked.
    Off,
    /// Every launch is checked; a finding in one that was shown to be in
    /// bounds is an error of Ringfence.
    Verify,
}

/// When checks against shadow memory load shadow bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShadowLoads {
    /// Where the bounds of a pointer parameter do not show that the access is inside.
    Auto,
    /// In every check.
    Always,
    /// Never: no address is covered. Checks compute all else, so that it can be measured
    /// what the loads cost (GASan's `GASanNoMem`).
    Never,
}

/// Which protections are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Protections {
    /// Exact bounds, by rewriting PTX: CUDA programs.
    pub bounds: bool,
    /// Canaries around buffers, verified after each kernel: OpenCL programs.
    pub canary: bool,
    /// Canaries verified while kernels run, by a kernel of Ringfence's own:
    /// CUDA programs.
    #[serde(default)]
    pub watch: bool,
    /// Shadow memory, by rewriting PTX: CUDA programs. In place of `bounds` and
    /// of canaries.
    #[serde(default)]
    pub shadow: bool,
    /// Buffers end at unmapped pages: CUDA programs.
    #[serde(default)]
    pub pages: bool,
}

/// Protections that can be on together.
pub(crate) struct ProtectionList(Flags<Protections>);

impl Form<Protections> for ProtectionList {
    fn expected(&self) -> String {
        format!("{}; shadow only alone", self.0.expected())
    }

    fn parse(&self, text: &str) -> Option<Protections> {
        let parsed = self.0.parse(text);
        parsed.filter(|protect| protect.conflict().is_none())
    }

    fn text(&self, value: &Protections) -> Option<String> {
        self.0.text(value)
    }
}

/// Which end of a buffer lies at an unmapped page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PagesPlace {
    /// Its end.
    End,
    /// Its start.
    Start,
}

/// How much of the device's memory may be used for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryBudget {
    /// This many bytes.
    Bytes(u64),
    /// This part of all that the device has.
    Percent(u32),
}

impl MemoryBudget {
    /// In bytes, of a device with this many.
    pub fn of(self, total: u64) -> u64 {
        match self {
            MemoryBudget::Bytes(bytes) => bytes,
            MemoryBudget::Percent(percent) => total / 100 * u64::from(percent),
        }
    }
}

/// What canaries hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryPattern {
    /// Bytes that differ from buffer to buffer and from run to run.
    Random,
    /// This byte.
    Byte(u8),
}

/// What verifies canaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryChecker {
    /// Whichever is faster, as measured while the program runs.
    Auto,
    /// The host, which reads them.
    Host,
    /// A kernel on the device.
    Device,
}

impl Protections {
    const NONE: Protections = Protections {
        bounds: false,
        canary: false,
        watch: false,
        shadow: false,
        pages: false,
    };

    /// What is on unless something else is asked for.
    pub const DEFAULT: Protections = Protections {
        bounds: true,
        canary: true,
        watch: false,
        shadow: false,
        pages: false,
    };

    /// For code with and without PTX: exact bounds where they can be checked,
    /// canaries and unmapped pages where not.
    const AUTO: Protections = Protections {
        bounds: true,
        canary: true,
        watch: false,
        shadow: false,
        pages: true,
    };

    const FORM: ProtectionList = ProtectionList(Flags {
        none: Protections::NONE,
        all: Some(("auto", Protections::AUTO)),
        flags: flags!(bounds, canary, watch, shadow, pages),
    });

    /// Whether kernels are launched as checked copies, whatever their checks
    /// compare with.
    pub fn instruments(self) -> bool {
        self.bounds || self.shadow
    }

    /// The protection that the shadow cannot be combined with, if one is on.
    pub fn conflict(self) -> Option<&'static str> {
        let others = [
            (self.bounds, "bounds"),
            (self.canary, "canary"),
            (self.watch, "watch"),
            (self.pages, "pages"),
        ];
        let mut others = others.into_iter().filter(|(is_on, _)| *is_on);
        others.next().filter(|_| self.shadow).map(|(_, name)| name)
    }
}

/// The spelling of a setting on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOption {
    /// `--NAME VALUE`, with the name of the value for help texts.
    Value(&'static str),
    /// `--NAME`, which switches the setting on.
    Flag,
    /// An option that switches the setting off.
    Negation {
        /// The option's name.
        option: &'static str,
        /// What the option does.
        help: &'static str,
    },
}

/// A row of the table of settings.
#[derive(Debug)]
pub struct Setting {
    /// Its name in `RINGFENCE_OPTIONS`, and that of its option.
    pub name: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Its spelling on the command line.
    pub option: CommandOption,
    /// The meaning of the default, if its text does not show it.
    default_words: &'static [&'static str],
    expected: fn() -> String,
    set: fn(&mut Settings, &str) -> Option<()>,
    get: fn(&Settings) -> Option<String>,
}

impl Setting {
    /// The values that it takes, in words: `on or off`.
    pub fn expected(&self) -> String {
        (self.expected)()
    }

    /// Its default, as the text that sets it, or in words; `None` if it has no
    /// value by default.
    pub fn default_text(&self) -> Option<String> {
        let words = self.default_words.first().map(|words| (*words).to_owned());
        words.or_else(|| self.text(&Settings::default()))
    }

    /// Sets it to the value that a text means.
    ///
    /// # Errors
    ///
    /// The text means none of its values.
    pub fn set(&self, settings: &mut Settings, text: &str) -> Result<(), SettingsError> {
        (self.set)(settings, text).ok_or_else(|| SettingsError {
            setting: format!("{}={text}", self.name),
            help: format!("expected {}", self.expected()),
        })
    }

    /// The text that sets it to the value that it has; `None`: it has none.
    pub fn text(&self, settings: &Settings) -> Option<String> {
        (self.get)(settings)
    }

    /// All settings.
    pub fn all() -> impl Iterator<Item = &'static Setting> {
        SECTIONS.iter().flat_map(|section| section.settings)
    }

    /// The setting of this name.
    pub fn find(name: &str) -> Option<&'static Setting> {
        Setting::all().find(|setting| setting.name == name)
    }
}

/// Settings that belong together, for documents.
#[derive(Debug)]
pub struct Section {
    /// What they are about.
    pub title: &'static str,
    /// The settings.
    pub settings: &'static [Setting],
}

impl Settings {
    /// Applies the text of `RINGFENCE_OPTIONS`: `key=value` pairs separated by
    /// colons; a colon or a backslash inside a value is written `\:` or
    /// `\\`. Empty pairs are ignored.
    ///
    /// # Errors
    ///
    /// The first pair that is malformed, unknown, or out of range.
    pub fn apply_options(&mut self, text: &str) -> Result<(), SettingsError> {
        for pair in split_options(text) {
            if pair.is_empty() {
                continue;
            }
            let Some((key, value)) = pair.split_once('=') else {
                return Err(SettingsError {
                    setting: pair,
                    help: "expected key=value; separate settings by colons".into(),
                });
            };
            self.set(key.trim(), value)?;
        }
        Ok(())
    }

    /// Sets one option by its name in kebab-case.
    ///
    /// # Errors
    ///
    /// The name is unknown, or the value is not of its kind.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingsError> {
        let Some(setting) = Setting::find(key) else {
            let mut known: Vec<&str> = Setting::all().map(|setting| setting.name).collect();
            known.sort_unstable();
            return Err(SettingsError {
                setting: format!("{key}={value}"),
                help: format!("unknown setting; known are {}", known.join(", ")),
            });
        };
        setting.set(self, value)
    }

    /// Whether a kernel passes the name filters. Either of its names may
    /// match.
    pub fn selects_kernel(&self, mangled: &str, demangled: &str) -> bool {
        let matches =
            |part: &String| mangled.contains(part.as_str()) || demangled.contains(part.as_str());
        self.kernel_name.as_ref().is_none_or(matches)
            && !self.kernel_name_exclude.as_ref().is_some_and(matches)
    }
}

fn split_options(text: &str) -> Vec<String> {
    let mut pairs = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let last = pairs.len() - 1;
        match character {
            ':' => pairs.push(String::new()),
            '\\' => match characters.next() {
                Some(escaped @ (':' | '\\')) => pairs[last].push(escaped),
                Some(other) => pairs[last].extend(['\\', other]),
                None => pairs[last].push('\\'),
            },
            other => pairs[last].push(other),
        }
    }
    pairs
}

/// A setting that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The text `key=value` at fault.
    pub setting: String,
    /// What was expected.
    pub help: String,
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "setting `{}`: {}", self.setting, self.help)
    }
}

impl std::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_order_and_colons_can_be_escaped() {
        let mut settings = Settings::default();
        settings
            .apply_options(
                r"device=cpu:print-limit=3::log-file=/tmp/a\:b-%p.log:check=off:print-limit=4",
            )
            .unwrap();
        assert_eq!(settings.device, Some(DeviceKind::Cpu));
        assert_eq!(settings.print_limit, 4);
        assert_eq!(settings.log_file.as_deref(), Some("/tmp/a:b-%p.log"));
        assert!(!settings.check);
    }

    #[test]
    fn rows_are_named_as_their_fields_and_have_a_help_text_of_sentences() {
        let json = serde_json::to_value(Settings::default()).unwrap();
        let mut fields: Vec<&str> = json
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut names: Vec<&str> = Setting::all().map(|setting| setting.name).collect();
        names.push("session");
        fields.sort_unstable();
        names.sort_unstable();
        assert_eq!(fields, names);
        for setting in Setting::all() {
            let Setting { name, help, .. } = setting;
            assert!(
                help.ends_with('.') && !help.contains("  "),
                "{name}: {help}"
            );
            assert!(!setting.expected().is_empty(), "{name}");
        }
        assert!(Settings::default().set("sesion", "1").is_err());
        assert!(Settings::default().set("session", "/tmp").is_err());
    }

    /// Texts, of which each setting takes one that is not its default.
    const SAMPLES: [&str; 12] = [
        "7", "64k", "cpu", "full", "watch", "fields", "device", "start", "off", "on", "128",
        "always",
    ];

    #[test]
    fn values_survive_a_round_through_text() {
        for setting in Setting::all() {
            let default = Settings::default();
            let name = setting.name;
            if let Some(text) = setting.text(&default) {
                let mut again = different(setting);
                setting.set(&mut again, &text).unwrap();
                assert_eq!(again, default, "{name}={text}");
            }
            let other = different(setting);
            let text = setting.text(&other).unwrap();
            let mut again = Settings::default();
            again.apply_options(&format!("{name}={text}")).unwrap();
            assert_eq!(again, other, "{name}={text}");
        }
    }

    /// The defaults with another value in this row.
    fn different(setting: &Setting) -> Settings {
        let mut samples = SAMPLES.iter().map(|text| {
            let mut settings = Settings::default();
            let set = setting.set(&mut settings, text);
            set.is_ok().then_some(settings)
        });
        let found = samples.find_map(|settings| settings.filter(|it| *it != Settings::default()));
        found.unwrap_or_else(|| panic!("{} takes none of the samples", setting.name))
    }

    #[test]
    fn errors_name_the_pair_and_what_was_expected() {
        for text in [
            "nonsense",
            "device=tpu",
            "print-limit=-1",
            "error-exitcode=256",
            "check=maybe",
            "json=",
            "x=1",
        ] {
            let error = Settings::default().apply_options(text).unwrap_err();
            assert!(error.setting.contains(text), "{error}");
            assert!(!error.help.is_empty());
        }
    }

    #[test]
    fn protections_are_a_list() {
        let parse = |value: &str| {
            let mut settings = Settings::default();
            settings.set("protect", value).ok()?;
            Some((settings.protect.bounds, settings.protect.canary))
        };
        assert_eq!(parse("canary"), Some((false, true)));
        assert_eq!(parse("bounds"), Some((true, false)));
        assert_eq!(parse("bounds, canary"), Some((true, true)));
        assert_eq!(parse(""), None);
        assert_eq!(parse("bounds,fence"), None);
        assert_eq!(parse("shadow"), Some((false, false)));
        assert_eq!(parse("shadow,canary"), None);
    }

    #[test]
    fn canaries_hold_what_is_asked_for() {
        let mut settings = Settings::default();
        for (text, pattern) in [
            ("0xC2", CanaryPattern::Byte(0xc2)),
            ("7", CanaryPattern::Byte(7)),
            ("random", CanaryPattern::Random),
        ] {
            settings.set("canary-pattern", text).unwrap();
            assert_eq!(settings.canary_pattern, pattern);
        }
        assert!(settings.set("canary-pattern", "256").is_err());
        assert!(settings.set("canary-size", "8").is_err());
        assert!(settings.set("canary-size", "64k").is_ok());
        assert!(settings.set("canary-budget", "0").is_err());
        assert!(settings.set("canary-budget", "100").is_ok());
        assert!(settings.set("canary-head", "off").is_ok() && !settings.canary_head);
    }

    #[test]
    fn kernel_filters_match_either_name() {
        let only = Settings {
            kernel_name: Some("scale(".into()),
            ..Settings::default()
        };
        assert!(only.selects_kernel("_Z5scalePf", "scale(float*)"));
        assert!(!only.selects_kernel("_Z3addPf", "add(float*)"));
        let not = Settings {
            kernel_name_exclude: Some("_Z3add".into()),
            ..Settings::default()
        };
        assert!(!not.selects_kernel("_Z3addPf", "add(float*)"));
    }
}
