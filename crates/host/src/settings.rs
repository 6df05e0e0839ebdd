//! Settings as a process of the program finds them.

use model::{Settings, SettingsError};

/// Reads `RINGFENCE_SETTINGS` (JSON, set by `ringfence run`, which has already
/// taken `RINGFENCE_OPTIONS` into account), else `RINGFENCE_OPTIONS` over the
/// defaults. `variable` reads an environment variable.
///
/// # Errors
///
/// The text of one of them cannot be read.
pub fn settings_from_environment(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Settings, SettingsError> {
    if let Some(json) = variable("RINGFENCE_SETTINGS") {
        return serde_json::from_str(&json).map_err(|error| SettingsError {
            setting: "RINGFENCE_SETTINGS".into(),
            help: format!("not the JSON that `ringfence run` of this version writes: {error}"),
        });
    }
    let mut settings = Settings::default();
    if let Some(options) = variable("RINGFENCE_OPTIONS") {
        settings.apply_options(&options)?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_wins_over_options_and_errors_name_the_variable() {
        let json = serde_json::to_string(&Settings {
            seed: 7,
            ..Settings::default()
        })
        .unwrap();
        let both = |key: &str| match key {
            "RINGFENCE_SETTINGS" => Some(json.clone()),
            _ => Some("seed=9".to_string()),
        };
        assert_eq!(settings_from_environment(both).unwrap().seed, 7);
        let options = |key: &str| (key == "RINGFENCE_OPTIONS").then(|| "seed=9".to_string());
        assert_eq!(settings_from_environment(options).unwrap().seed, 9);
        let broken = |_: &str| Some("{".to_string());
        assert_eq!(
            settings_from_environment(broken).unwrap_err().setting,
            "RINGFENCE_SETTINGS"
        );
        assert_eq!(
            settings_from_environment(|_| None).unwrap(),
            Settings::default()
        );
    }
}
