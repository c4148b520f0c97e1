/** What to type for a login link. A daemon that only this machine reaches says what works in any folder. */
export async function loginCommand() {
  const answer = await fetch("/api/health").then((found) => found.json()).catch(() => null);
  return answer?.login_command ?? "relight dashboard";
}
