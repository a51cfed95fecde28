//! What was measured on this machine, kept for the plans that choose by it: a JSON file for each subject, machine and MPICH.
//!
//! Files are in `$MALLEUS_TUNE`, else in `$XDG_CACHE_HOME/malleus`, else in `$HOME/.cache/malleus`. They are replaced as a
//! whole, so that a reader sees the old one or the new one.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::mpi::Environment;

/// Why what was measured could not be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No variable of the environment names a folder.
    #[error("none of MALLEUS_TUNE, XDG_CACHE_HOME and HOME names a folder")]
    Folder,
    /// The system refused.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not hold what it should.
    #[error("{path}: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The folder, by the value of each variable.
fn folder(value: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| {
        value(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    path("MALLEUS_TUNE")
        .or_else(|| Some(path("XDG_CACHE_HOME")?.join("malleus")))
        .or_else(|| Some(path("HOME")?.join(".cache/malleus")))
}

/// Letters, digits, dots and dashes.
fn plain(text: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => letter,
        _ => '_',
    };
    text.chars().map(plain).collect()
}

/// The file of a subject, for this machine, its MPICH and the provider that was chosen. `MPI_Get_processor_name`.
///
/// # Errors
///
/// [`Error::Folder`]. A machine that has no name is called `unknown`.
pub fn file(environment: &Environment, subject: &str) -> Result<PathBuf, Error> {
    let folder = folder(|name| std::env::var_os(name)).ok_or(Error::Folder)?;
    let machine = environment.processor_name();
    let machine = machine.unwrap_or_else(|_| "unknown".to_owned());
    let provider = Environment::provider().unwrap_or_else(|| "default".to_owned());
    let parts = [
        subject,
        &machine,
        crate::MPICH_VERSION,
        crate::MPICH_DEVICE,
        &provider,
    ];
    Ok(folder.join(format!("{}.json", parts.map(plain).join("_"))))
}

/// What a file holds; nothing where there is none.
///
/// # Errors
///
/// [`Error::File`], [`Error::Content`].
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(refused(path, source)),
    };
    let content = |source| Error::Content {
        path: path.to_owned(),
        source,
    };
    serde_json::from_slice(&text).map(Some).map_err(content)
}

/// Replaces a file, and makes its folder if need be.
///
/// # Errors
///
/// [`Error::File`], [`Error::Content`].
pub fn write(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(value).map_err(|source| Error::Content {
        path: path.to_owned(),
        source,
    })?;
    let next = path.with_extension(format!("{}.new", std::process::id()));
    let written = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = std::fs::File::create(&next)?;
        file.write_all(&text)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&next, path)
    };
    written().map_err(|source| {
        // It may never have been made.
        let _ = std::fs::remove_file(&next);
        refused(path, source)
    })
}

fn refused(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_names_the_folder() {
        let folder = |set: &[(&str, &str)]| {
            let set = set.to_vec();
            super::folder(move |name| {
                let found = set.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        let (home, cache) = (("HOME", "/home/a"), ("XDG_CACHE_HOME", "/cache"));
        assert_eq!(folder(&[]), None);
        assert_eq!(folder(&[home]), Some("/home/a/.cache/malleus".into()));
        assert_eq!(folder(&[home, cache]), Some("/cache/malleus".into()));
        let own = ("MALLEUS_TUNE", "/own");
        assert_eq!(folder(&[home, cache, own]), Some("/own".into()));
        let empty = ("MALLEUS_TUNE", "");
        assert_eq!(folder(&[empty, cache]), Some("/cache/malleus".into()));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/subject.json");
        assert!(matches!(read::<Vec<u32>>(&path), Ok(None)));
        for value in [vec![1_u32, 2], vec![3]] {
            write(&path, &value).unwrap();
            assert_eq!(read::<Vec<u32>>(&path).unwrap(), Some(value));
        }
        let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "the file alone");
        std::fs::write(&path, "[1, ").unwrap();
        let error = read::<Vec<u32>>(&path).unwrap_err();
        assert!(matches!(error, Error::Content { .. }), "{error}");
        let below = path.join("below.json");
        assert!(matches!(write(&below, &1), Err(Error::File { .. })));
    }
}
