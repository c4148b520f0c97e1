// How far a task is.

/** Where steps were declared, only those count. */
export function stepCounts(task) {
  const declared = task.steps_declared.length;
  const done = declared ? task.steps_declared_done : task.steps_done;
  const all = declared || task.steps_done + task.steps_in_doubt;
  return { done, all, part: all ? done / all : 0 };
}
