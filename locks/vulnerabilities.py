"""Ask a public service what is known against the locked packages; fail where something is and nobody argued it away.

pip-audit asks. Before that, each service is asked about a package that is known to be bad, because a mirror of the
index that knows no vulnerabilities answers as if there were none. Where no service can be asked, that is said, and
nothing is checked; with `--required` it is a failure.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

HERE = Path(__file__).parent

SERVICES = ("pypi", "osv")

KNOWN_BAD = "jinja2==2.4.1"
"""Its escape from the sandbox (CVE-2016-10745) has been in every database for years."""

TIMEOUT_SECONDS = 5
"""For one answer of a service."""

AT_MOST_SECONDS = 120
"""For all of them."""


class NotAnswered(RuntimeError):
    """No service could be asked. Run it where the network lets https://pypi.org or https://api.osv.dev through."""


@dataclass(frozen=True, kw_only=True)
class ArguedAway:
    """A vulnerability that is known and does not reach us, until somebody has to look again."""

    id: str
    until: date
    why: str


def read_exceptions(text: str) -> list[ArguedAway]:
    """Lines such as `GHSA-xxxx until 2027-01-31: we never call it with ...`."""
    found = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        head, colon, why = line.partition(":")
        words = head.split()
        if not (colon and why.strip() and len(words) == 3 and words[1] == "until"):
            raise ValueError(f"{line!r} is not like `GHSA-xxxx until 2027-01-31: why it does not reach us`")
        found.append(ArguedAway(id=words[0], until=date.fromisoformat(words[2]), why=why.strip()))
    return found


def asked(requirements: str, service: str, *more: str) -> list[dict[str, object]]:
    """What pip-audit finds out about pinned requirements: one row per package."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text(requirements)
        command = [
            sys.executable, "-m", "pip_audit", "--requirement", str(wanted), "--no-deps", "--disable-pip",
            "--vulnerability-service", service, "--format", "json", "--progress-spinner", "off",
            "--timeout", str(TIMEOUT_SECONDS), "--cache-dir", folder, *more,
        ]  # fmt: skip
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=AT_MOST_SECONDS)  # noqa: S603
        except subprocess.TimeoutExpired:
            raise NotAnswered(f"{service} did not answer within {AT_MOST_SECONDS} s") from None
    try:
        rows: list[dict[str, object]] = json.loads(told.stdout)["dependencies"]
    except ValueError:
        raise NotAnswered(f"{service}: {(told.stderr.strip().splitlines() or ['no answer'])[-1]}") from None
    return rows


def answering(*more: str) -> str:
    """The first service that knows about a package of which everybody knows."""
    reasons = []
    for service in SERVICES:
        try:
            if any(row.get("vulns") for row in asked(KNOWN_BAD, service, *more)):
                return service
            reasons.append(f"{service} knows nothing against {KNOWN_BAD}, so it would know nothing against others")
        except NotAnswered as error:
            reasons.append(str(error))
    raise NotAnswered("; ".join(reasons))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--required", action="store_true", help="fail where no service can be asked")
    parser.add_argument("--locks", type=Path, default=HERE, help="the folder of the lock files")
    parser.add_argument("--osv-url", help="a service that speaks like osv.dev")
    told = parser.parse_args(arguments)
    more = ("--osv-url", told.osv_url) if told.osv_url else ()
    exceptions = read_exceptions((told.locks / "exceptions.txt").read_text())
    old = [e.id for e in exceptions if e.until < datetime.now(UTC).date()]
    if old:
        print(f"look again at what was argued away for a time in locks/exceptions.txt: {', '.join(old)}")
        return 1
    files = [told.locks / f"{part}.txt" for part in ("run", "torch", "features", "dev", "bench")]
    pins = sorted({line.split()[0] for file in files if file.exists() for line in pinned(file.read_text())})
    try:
        service = answering(*more)
        rows = asked("\n".join(pins), service, *more)
    except NotAnswered as error:
        print(f"vulnerabilities: NOT CHECKED, because no service can be asked from here ({error})")
        return 1 if told.required else 0
    return report(rows, {e.id: e.why for e in exceptions}, service)


def pinned(lock: str) -> list[str]:
    return [line for line in lock.splitlines() if line[:1].isalnum()]


def report(rows: list[dict[str, object]], argued: dict[str, str], service: str) -> int:
    """Print what was found; return the exit status."""
    bad = 0
    for row in rows:
        if "skip_reason" in row:
            print(f"vulnerabilities: {row['name']} was not checked: {row['skip_reason']}")
        for found in row.get("vulns", ()):  # type: ignore[attr-defined]
            names = {found["id"], *found["aliases"]}
            why = next((argued[name] for name in names if name in argued), None)
            bad += why is None
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            print(
                f"{row['name']} {row['version']}: {found['id']}, fixed in {fixed}" + (f"; argued: {why}" if why else "")
            )
    print(f"vulnerabilities: {bad} known against {len(rows)} locked packages, asked of {service}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
