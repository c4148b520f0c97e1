//! Finds presets: those in the binary, and those of the user, which count more.

use std::io;
use std::path::{Path, PathBuf};

use super::Preset;
use crate::os::file;
use crate::spelling::nearest;

/// The presets in the binary.
pub const BUILT_IN: [(&str, &str); 10] = [
    ("generic", include_str!("generic.toml")),
    ("claude-code", include_str!("claude-code.toml")),
    ("codex", include_str!("codex.toml")),
    ("gemini", include_str!("gemini.toml")),
    ("opencode", include_str!("opencode.toml")),
    ("kimi", include_str!("kimi.toml")),
    ("aider", include_str!("aider.toml")),
    ("qwen", include_str!("qwen.toml")),
    ("pi", include_str!("pi.toml")),
    ("copilot", include_str!("copilot.toml")),
];

/// A preset is a page of text; more is a mistake.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// More files than that in one folder are not presets.
const FILES_MAX: usize = 1_000;

/// Why there is no such preset.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// Nobody wrote it.
    #[error("unknown preset {name:?}; known are {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        nearest: Option<String>,
        /// All names.
        known: Vec<String>,
    },
    /// The user's file cannot be read.
    #[error("cannot read the preset {}", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what a preset is.
    #[error("the preset {} is not valid", file.display())]
    Invalid {
        /// Which file.
        file: PathBuf,
        /// Where, and what.
        source: Box<toml::de::Error>,
    },
}

impl Preset {
    /// The built-in preset for any program.
    pub fn generic() -> Self {
        Self::by_name("generic", None).expect("it is built in")
    }

    /// The preset of this name: the user's where there is a `NAME.toml` in the folder, else ours.
    pub fn by_name(name: &str, user_folder: Option<&Path>) -> Result<Self, PresetError> {
        let folder = user_folder.filter(|_| is_name(name));
        let own = folder.map(|folder| folder.join(format!("{name}.toml")));
        if let Some(file) = own
            && let Some(text) = read(&file)?
        {
            return Self::parse(name, &text, &file);
        }
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => Self::parse(name, text, Path::new(name)),
            None => Err(unknown(name, user_folder)),
        }
    }

    /// Every preset by name, those that are not valid too.
    pub fn all(user_folder: Option<&Path>) -> Vec<(String, Result<Self, PresetError>)> {
        let preset = |name: String| {
            let preset = Self::by_name(&name, user_folder);
            (name, preset)
        };
        Self::names(user_folder).into_iter().map(preset).collect()
    }

    /// The names of all, ours first.
    pub fn names(user_folder: Option<&Path>) -> Vec<String> {
        let mut names: Vec<String> = BUILT_IN
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
        let mut own = user_folder.map(names_in).unwrap_or_default();
        own.retain(|name| !names.contains(name));
        own.sort();
        names.extend(own);
        names
    }

    /// A preset by the text of its file.
    pub fn parse(name: &str, text: &str, file: &Path) -> Result<Self, PresetError> {
        let preset: Self = toml::from_str(text).map_err(|source| PresetError::Invalid {
            file: file.to_path_buf(),
            source: Box::new(source),
        })?;
        Ok(Self {
            name: name.to_owned(),
            source: text.to_owned(),
            ..preset
        })
    }
}

fn unknown(name: &str, user_folder: Option<&Path>) -> PresetError {
    let known = Preset::names(user_folder);
    let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
    PresetError::Unknown {
        name: name.to_owned(),
        nearest,
        known,
    }
}

/// Whether it may be part of a path.
fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}

fn read(path: &Path) -> Result<Option<String>, PresetError> {
    let unreadable = |source| PresetError::Unreadable {
        file: path.to_path_buf(),
        source,
    };
    match file::open_regular(path).and_then(|opened| file::read_text(opened, FILE_BYTES_MAX)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error)),
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.take(FILES_MAX).filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.strip_suffix(".toml").map(str::to_owned)
    });
    names.filter(|name| is_name(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_in_the_binary_is_valid() {
        for (name, preset) in Preset::all(None) {
            let preset = preset.unwrap();
            assert_eq!(preset.name(), name);
            assert!(!preset.about().is_empty());
        }
    }

    #[test]
    fn a_mistyped_name_is_answered_with_the_nearest() {
        let error = Preset::by_name("claude", None).unwrap_err();
        let PresetError::Unknown { nearest, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(nearest.as_deref(), Some("claude-code"));
        assert!(matches!(
            Preset::by_name("xyzzy", None),
            Err(PresetError::Unknown { nearest: None, .. })
        ));
    }

    #[test]
    fn a_preset_of_the_user_counts_more_than_ours() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("codex.toml"), "about = \"mine\"").unwrap();
        std::fs::write(folder.path().join("other.toml"), "about = \"new\"").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "").unwrap();
        assert_eq!(
            Preset::by_name("codex", Some(folder.path()))
                .unwrap()
                .about(),
            "mine"
        );
        let names = Preset::names(Some(folder.path()));
        assert_eq!(names.last().unwrap(), "other");
        assert_eq!(names.len(), BUILT_IN.len() + 1);
    }

    #[test]
    fn a_pipe_in_the_folder_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("codex.toml"), mode).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("endless.toml")).unwrap();
        for name in ["codex", "endless"] {
            let error = Preset::by_name(name, Some(folder.path())).unwrap_err();
            assert!(matches!(error, PresetError::Unreadable { .. }), "{error}");
        }
    }

    #[test]
    fn a_name_never_leaves_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("evil.toml"), "about = \"outside\"").unwrap();
        let inner = folder.path().join("presets");
        std::fs::create_dir(&inner).unwrap();
        for name in ["../evil", "/etc/passwd", "", "a\0b", "..", &"x".repeat(65)] {
            assert!(Preset::by_name(name, Some(&inner)).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_mistake_in_a_preset_is_told_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let bad = "about = \"x\"\nresum = [\"-c\"]\n";
        std::fs::write(folder.path().join("bad.toml"), bad).unwrap();
        let error = Preset::by_name("bad", Some(folder.path())).unwrap_err();
        let PresetError::Invalid { source, .. } = error else {
            panic!("{error}")
        };
        let text = source.to_string();
        assert!(
            text.contains("line 2") && text.contains("`resum`"),
            "{text}"
        );
        for (text, said) in [
            (
                "about = \"x\"\n[[stop]]\nsignal = \"TREM\"",
                "unknown signal",
            ),
            (
                "about = \"x\"\n[[stop]]\nsignal = \"INT\"\nwait = \"5\"",
                "not a duration",
            ),
            (
                "about = \"x\"\n[exit_codes]\n\"300\" = \"later\"",
                "not an exit code",
            ),
            ("launch = []", "about"),
        ] {
            std::fs::write(folder.path().join("bad.toml"), text).unwrap();
            let error = Preset::by_name("bad", Some(folder.path())).unwrap_err();
            let told = std::error::Error::source(&error).unwrap().to_string();
            assert!(told.contains(said), "{told}");
        }
    }

    #[test]
    fn the_example_of_the_guide_is_valid() {
        let guide = include_str!("../../../../docs/guides/presets.md");
        let (_, example) = guide.split_once("```toml file=").unwrap();
        let (_, example) = example.split_once('\n').unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let preset = Preset::parse("ours", example, Path::new("ours.toml")).unwrap();
        assert_eq!(preset.about(), "our agent");
        assert_eq!(preset.stop.len(), 2);
    }
}
