"""Floor: what people use today. checkpoint.py start|update|complete|list [WORKFLOW] [STEP]"""
import glob, hashlib, json, os, sys, tempfile
from datetime import datetime, timedelta, timezone

FOLDER = os.path.join("memory", "checkpoints")


def path(workflow):
    return os.path.join(FOLDER, workflow + ".json")


def save(state):
    now = datetime.now(timezone.utc)
    state["updatedAt"] = now.isoformat()
    state["expiresAt"] = (now + timedelta(days=7)).isoformat()
    state.pop("checkpointHash", None)
    text = json.dumps(state, sort_keys=True)
    state["checkpointHash"] = hashlib.sha256(text.encode()).hexdigest()
    os.makedirs(FOLDER, exist_ok=True)
    fd, beside = tempfile.mkstemp(dir=FOLDER)
    with os.fdopen(fd, "w") as file:
        json.dump(state, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path(state["workflowId"]))
    folder = os.open(FOLDER, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


verb, workflow, step = (sys.argv[1:] + ["", ""])[:3]
if verb == "list":
    for name in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
        state = json.load(open(name))
        print(state["workflowId"], state["status"], state["currentStep"])
elif verb == "start":
    save({"schemaVersion": "1.0", "workflowId": workflow, "status": "in_progress",
          "currentStep": step, "completedSteps": [], "idempotencyKey": workflow})
else:
    state = json.load(open(path(workflow)))
    state["completedSteps"].append(state["currentStep"])
    state.update(status="done" if verb == "complete" else "in_progress", currentStep=step)
    save(state)
