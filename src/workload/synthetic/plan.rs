//! A configuration, checked against what this library can do.

use serde::Serialize;

use super::Error;
use super::config::{Configuration, Management};
use crate::redistribute::{Method, Variant};

/// A configuration that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was read.
    pub configuration: Configuration,
    /// How the data gets to each group; the first has no use for it.
    pub variants: Vec<Variant>,
    /// What has no effect: what the reader found, and what a job can't do.
    pub ignored: Vec<Ignored>,
}

/// Something in a configuration that has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ignored {
    /// The key, with the tables it lies in.
    pub key: String,
    /// Its line, where that is known.
    pub line: Option<u64>,
    /// Why, and what happens in its place.
    pub reason: String,
}

impl Plan {
    /// Checks a configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] for a variant that does not exist.
    pub fn new(configuration: Configuration) -> Result<Self, Error> {
        let mut ignored: Vec<_> = configuration
            .ignored
            .iter()
            .map(|one| Ignored {
                key: one.key.clone(),
                line: Some(one.line),
                reason: one.reason.clone(),
            })
            .collect();
        let mut variants = Vec::with_capacity(configuration.groups.len());
        for (index, group) in configuration.groups.iter().enumerate() {
            let Some(transition) = &group.resize else {
                variants.push(Variant::blocking(Method::Collective));
                continue;
            };
            let variant = transition.variant().parse::<Variant>();
            let told = |error| Error::Configuration(format!("group {index}: {error}"));
            variants.push(variant.map_err(told)?);
            let mut ignore = |key: &str, reason: &str| {
                ignored.push(Ignored {
                    key: format!("group {index}: {key}"),
                    line: None,
                    reason: reason.to_owned(),
                });
            };
            let before = configuration.groups[index - 1].processes;
            if before == group.processes {
                ignore(
                    "the resize into it",
                    "it has as many processes as the group before it: nothing moves, its iterations follow",
                );
                continue;
            }
            if transition.management == Management::Baseline {
                ignore(
                    "management baseline",
                    "processes that are in both groups go on (merge)",
                );
            }
            if transition.spawn_in_background && group.processes > before {
                ignore(
                    "starting processes in the background",
                    "they start at the checkpoint, which waits for them",
                );
            }
        }
        Ok(Self {
            configuration,
            variants,
            ignored,
        })
    }
}
