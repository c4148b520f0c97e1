"""Floor: a stale check as people write it, json + glob. scan.py ROOT STALE_SECONDS"""
import glob, json, os, sys
from datetime import datetime, timezone

root, stale_seconds = sys.argv[1], float(sys.argv[2])
now = datetime.now(timezone.utc)
alerts = 0
for name in glob.glob(os.path.join(root, "memory", "checkpoints", "*.json")):
    with open(name) as file:
        state = json.load(file)
    if state["status"] == "done":
        continue
    updated = datetime.fromisoformat(state["updatedAt"].replace("Z", "+00:00"))
    age = (now - updated).total_seconds()
    if age > stale_seconds:
        alerts += 1
        print("ALERT", state["workflowId"], state["status"], int(age))
if not alerts:
    print("OK")
sys.exit(1 if alerts else 0)
