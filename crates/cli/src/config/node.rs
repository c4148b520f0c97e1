//! `[node]`: this machine in a fleet.

use relight_core::ids::NodeName;
use relight_core::time::Span;
use relight_runtime::fleet::{LEASE_MIN, RENEWALS_MIN};

use super::section::Section;

/// This machine in a fleet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeConfig {
    /// The host's name when none.
    pub(crate) name: Option<NodeName>,
    /// How long its agents and tasks stay its own without a renewal.
    pub(crate) lease: Span,
    /// How often it renews.
    pub(crate) renew: Span,
    /// What agents can ask for.
    pub(crate) labels: Vec<String>,
    /// Where its API is reached from other machines.
    pub(crate) address: Option<String>,
}

impl NodeConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let name = |text: &str| NodeName::new(text).map_err(|error| error.to_string());
        let label = |text: &str| {
            NodeName::new(text)
                .map(String::from)
                .map_err(|e| e.to_string())
        };
        let node = Self {
            name: section.optional("name", name),
            lease: section.span("lease"),
            renew: section.span("renew"),
            labels: section.each("labels", label).unwrap_or_default(),
            address: section.optional("address", address),
        };
        node.check(section);
        node
    }

    /// Whether the file says which node it is, or what for.
    pub(crate) fn is_wanted(&self) -> bool {
        self.name.is_some() || !self.labels.is_empty() || self.address.is_some()
    }

    fn check(&self, section: &Section<'_>) {
        if self.lease < LEASE_MIN {
            let text = format!("`lease` must be at least {LEASE_MIN}: agents need time to end");
            section.problem("lease", &text, None);
        }
        let renew_max = Span::from_ms(self.lease.as_ms() / RENEWALS_MIN);
        if self.renew > renew_max || self.renew < Span::from_ms(100) {
            let text =
                format!("`renew` must be between 100ms and a third of `lease` ({renew_max})");
            section.problem("renew", &text, None);
        }
    }
}

fn address(text: &str) -> Result<String, String> {
    let is_url = ["http://", "https://"]
        .iter()
        .any(|scheme| text.starts_with(scheme));
    let is_plain = text.chars().all(|c| c.is_ascii_graphic()) && !text.contains('@');
    if is_url && is_plain {
        return Ok(text.to_owned());
    }
    Err("write a URL without a password, such as https://build-1:7717".to_owned())
}
