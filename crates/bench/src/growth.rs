//! `growth`: what a step costs late in a long task, and in a store that is full of others.

use std::time::Instant;

use tokio::runtime::Runtime;

use crate::contest::Contest;
use crate::holder::Holder;
use crate::load::{Carrier, Until, Worker as _, per_second};
use crate::product::Library;
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;

const TASKS_AT_ONCE: usize = 256;
const LONG_TASK_STEPS: usize = 10_000;

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let store_steps = stage.pick(1_000_000, 100_000);
    let long_name = format!("step {LONG_TASK_STEPS} of a task");
    let full_name = format!("step with {store_steps} in the store");
    let open = |name| {
        stage
            .runtime
            .block_on(Library::open(&stage.subfolder(name)?))
    };
    let (new, long, full) = (open("new")?, open("long")?, open("full")?);
    let runtime = &stage.runtime;
    let mut long_task = Holder::start(runtime, &long, "long", 1)?.remove(0);
    runtime.block_on(async {
        for _ in 0..LONG_TASK_STEPS {
            long_task.write().await?;
        }
        anyhow::Ok(())
    })?;
    let filled_per_second = fill(runtime, &full, store_steps)?;

    let steps = stage.pick(300, 50);
    let mut contest = Contest::default();
    contest.enter("new", |round| first_steps_us(runtime, &new, round, steps));
    contest.enter("long", |_| step_us(runtime, &mut long_task, steps));
    contest.enter("full", |round| first_steps_us(runtime, &full, round, steps));
    let results = contest.run(stage.pick(9, 3))?;
    let row = |what: String, contestant| {
        Row::new(what, "µs")
            .figure(results.get(contestant))
            .beside("first steps of a new store", results.get("new"))
            .target(Target::TimesFloorMax(1.2))
    };
    let filling = Row::new(
        format!("filling the store, {TASKS_AT_ONCE} at once"),
        "steps/s",
    )
    .figure(Some(&Samples::new(vec![filled_per_second])));
    Ok(vec![
        row(long_name, "long"),
        row(full_name, "full"),
        filling,
    ])
}

fn fill(runtime: &Runtime, library: &Library, steps: usize) -> anyhow::Result<f64> {
    let holders = Holder::start(runtime, library, "full", TASKS_AT_ONCE)?;
    per_second(
        runtime,
        Carrier::Tasks,
        holders,
        Until::Written(steps.div_ceil(TASKS_AT_ONCE)),
    )
}

fn first_steps_us(
    runtime: &Runtime,
    library: &Library,
    round: usize,
    steps: usize,
) -> anyhow::Result<f64> {
    let mut holder = Holder::start(runtime, library, &format!("round-{round}"), 1)?.remove(0);
    step_us(runtime, &mut holder, steps)
}

/// The middle cost of the next `steps` of this task.
fn step_us(runtime: &Runtime, holder: &mut Holder, steps: usize) -> anyhow::Result<f64> {
    runtime.block_on(async {
        let mut all = Vec::with_capacity(steps);
        for _ in 0..steps {
            let began = Instant::now();
            holder.write().await?;
            all.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(Samples::new(all).p50())
    })
}
