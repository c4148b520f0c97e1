//! Whether an acknowledged step survives the loss of the server that has the store.

use relight_store::{Replication, Standby};

use super::finding::DoctorFinding;

const TOPIC: &str = "standby";

pub(super) fn describe(replication: &Replication) -> DoctorFinding {
    let standbys = &replication.standbys;
    let synchronous = standbys.iter().find(|standby| standby.is_synchronous);
    match (synchronous, &replication.waits_for, standbys.first()) {
        (Some(standby), _, _) => {
            let text = format!("yes, {} has it before it is acknowledged", name(standby));
            DoctorFinding::ok(TOPIC, asked(&text))
        }
        (None, _, Some(standby))
            if standbys
                .iter()
                .all(|standby| standby.behind_bytes.is_none()) =>
        {
            let text = format!("not known: this role may not see {}", name(standby));
            DoctorFinding::warning(TOPIC, asked(&text))
                .hint("GRANT pg_monitor TO the role of the store")
        }
        (None, Some(wanted), _) => {
            let text = format!("no standby of {wanted:?} is there: every commit waits for one");
            DoctorFinding::problem(TOPIC, text)
                .hint("bring the standby back, or set synchronous_standby_names")
        }
        (None, None, Some(_)) => {
            let behind: Vec<String> = standbys.iter().map(lag).collect();
            let text = format!("no, and leases would end too early: {}", behind.join(", "));
            let first = standbys.iter().find_map(|standby| standby.name.clone());
            let hint = format!(
                "synchronous_standby_names = '{}'",
                first.as_deref().unwrap_or("*")
            );
            DoctorFinding::warning(TOPIC, asked(&text)).hint(hint)
        }
        (None, None, None) => DoctorFinding::ok(
            TOPIC,
            asked("no: PostgreSQL knows of no standby; see its backups"),
        ),
    }
}

fn asked(answer: &str) -> String {
    format!("does an acknowledged step survive the loss of this server? {answer}")
}

fn name(standby: &Standby) -> String {
    match &standby.name {
        Some(name) => format!("standby {name}"),
        None => "the standby".to_owned(),
    }
}

fn lag(standby: &Standby) -> String {
    let bytes = match standby.behind_bytes {
        Some(bytes) => format!("{bytes} bytes"),
        None => "an unknown number of bytes".to_owned(),
    };
    let span = standby
        .behind_ms
        .map(|ms| format!(" and {ms} ms"))
        .unwrap_or_default();
    format!(
        "{} is asynchronous, now {bytes}{span} behind",
        name(standby)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standby(is_synchronous: bool, behind: Option<u64>) -> Standby {
        let name = behind.map(|_| "second".to_owned());
        Standby {
            name,
            is_synchronous,
            behind_bytes: behind,
            behind_ms: behind.map(|ms| ms / 100),
        }
    }

    fn told(waits_for: Option<&str>, standbys: Vec<Standby>) -> String {
        describe(&Replication {
            waits_for: waits_for.map(str::to_owned),
            standbys,
        })
        .line()
    }

    #[test]
    fn the_loss_of_the_server_is_told_of_before_it_happens() {
        let lines = [
            told(Some("second"), vec![standby(true, Some(0))]),
            told(None, vec![standby(false, Some(1_200))]),
            told(Some("third"), vec![standby(false, Some(1_200))]),
            told(Some("second"), vec![]),
            told(None, vec![standby(false, None)]),
            told(None, vec![]),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r#"
        ok       standby     does an acknowledged step survive the loss of this server? yes, standby second has it before it is acknowledged
        warning  standby     does an acknowledged step survive the loss of this server? no, and leases would end too early: standby second is asynchronous, now 1200 bytes and 12 ms behind; try: synchronous_standby_names = 'second'
        problem  standby     no standby of "third" is there: every commit waits for one; try: bring the standby back, or set synchronous_standby_names
        problem  standby     no standby of "second" is there: every commit waits for one; try: bring the standby back, or set synchronous_standby_names
        warning  standby     does an acknowledged step survive the loss of this server? not known: this role may not see the standby; try: GRANT pg_monitor TO the role of the store
        ok       standby     does an acknowledged step survive the loss of this server? no: PostgreSQL knows of no standby; see its backups
        "#);
    }
}
