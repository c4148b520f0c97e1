//! One trial's folder: a store, a ledger, a task.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use super::ledger::Ledger;
use super::product::Product;

/// Where one trial plays.
#[derive(Debug, Clone)]
pub struct Stage {
    /// What is under proof.
    pub product: Product,
    /// The folder of the store.
    pub home: PathBuf,
    /// The folder of the checkpoint files.
    pub checkpoints: PathBuf,
    /// What really happened.
    pub ledger: Ledger,
    /// The task's id.
    pub task: String,
}

impl Stage {
    /// A stage whose store and ledger both lie in `folder`.
    pub fn in_folder(product: &Product, folder: &Path, task: &str) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        Ok(Self {
            product: product.clone(),
            home: folder.join("home"),
            checkpoints: folder.join("checkpoints"),
            ledger: Ledger::at(folder.join("ledger")),
            task: task.to_owned(),
        })
    }

    /// The URL of the store.
    pub fn store_url(&self) -> String {
        format!("sqlite:{}", self.home.join("relight.db").display())
    }

    /// The task as `relight task show` gives it; none when there is no such task or no store yet.
    pub fn task_shown(&self) -> anyhow::Result<Option<Value>> {
        // Looking must not make a store where there is none.
        if !self.home.join("relight.db").exists() {
            return Ok(None);
        }
        let answer = self
            .product
            .call(&self.home, &["task", "show", &self.task, "--json"])?;
        match answer.code {
            0 => answer.json().map(Some),
            1 => Ok(None),
            code => anyhow::bail!("task show: exit {code}: {}", answer.stderr.trim()),
        }
    }
}
