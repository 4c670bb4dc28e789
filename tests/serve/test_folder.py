"""``slalom serve --folder``: a corpus or an audit is shown as it is stored, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from servers import serving
from stored import TEXTS, stored_audit, stored_corpus

from slalom_xai.data.corpus import Corpus
from slalom_xai.errors import InputError
from slalom_xai.serve.folder import open_folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return stored_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    return stored_audit(tmp_path_factory.mktemp("audit"))


def test_a_corpus_is_shown_page_by_page_and_text_by_text(corpus, tmp_path):
    records = list(Corpus.open(corpus).records())
    with serving(tmp_path, "--folder", corpus) as server:
        assert server.address.endswith("/?tab=folder")
        about = server.get("/api/folder").json
        assert (about["kind"], about["name"], about["texts"]) == ("corpus", "explanations", 6)
        first, second = (server.get(f"/api/folder/texts?limit=4&start={at}").json for at in (0, 4))
        assert first["total"] == 6
        listed = [*first["texts"], *second["texts"]]
        assert [text["text"] for text in listed] == TEXTS
        assert [text["prediction"] for text in listed] == [one["prediction"] for one in records]
        assert [text["status"] for text in listed] == ["explained"] * 4 + ["failed", "explained"]
        assert server.get("/api/folder/texts?start=6").json["texts"] == []
        worst = server.get("/api/folder/texts?order=fidelity").json["texts"]
        found = [text["fidelity"] for text in worst]
        assert found[-1] is None
        assert found[:-1] == sorted(found[:-1])
        failed = server.get("/api/folder/texts?order=failed&limit=2").json["texts"]
        assert [text["number"] for text in failed] == [5, 1]
        for number, record in enumerate(records, 1):
            stored = server.get(f"/api/folder/texts/{number}").json
            assert stored == {"number": number, **record}
        assert "number 7" in server.get("/api/folder/texts/7").error
        assert server.get("/folder/manifest.json").status == 404
        assert "/torch/" not in Path(f"/proc/{server.process.pid}/maps").read_text()


def test_an_audit_is_shown_with_its_files_and_no_others(audit, tmp_path):
    shown = shutil.copytree(audit, tmp_path / "shown")
    (shown / "secret.txt").write_text("secret")
    (tmp_path / "card.md").write_text("secret")
    (shown / "model-card.md").unlink()
    (shown / "model-card.md").symlink_to(tmp_path / "card.md")
    with serving(tmp_path / "store", "--folder", shown) as server:
        about = server.get("/api/folder").json
        assert about["kind"] == "audit"
        assert about["numbers"] == json.loads((audit / "audit.json").read_text())["numbers"]
        assert about["files"] == ["report.html", "explanations.html", "report.md", "audit.json"]
        for name in about["files"]:
            reply = server.get(f"/folder/{name}")
            assert reply.body == (audit / name).read_bytes()
            assert "sandbox" in reply.headers["content-security-policy"]
        others = [
            "secret.txt",
            "model-card.md",
            "..%2Fcard.md",
            "%2Fetc%2Fpasswd",
            "report.html/..",
        ]
        assert {server.get(f"/folder/{name}").status for name in others} == {404}
        assert "shows no corpus" in server.get("/api/folder/texts").error


def test_a_folder_that_cannot_be_shown_is_refused_at_the_start(corpus, audit, tmp_path, slalom):
    (tmp_path / "other").mkdir()
    refused = slalom("serve", "--folder", tmp_path / "other")
    assert refused.returncode != 0
    assert "holds neither a corpus nor an audit" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1

    unfinished = shutil.copytree(corpus, tmp_path / "unfinished")
    (unfinished / "parts" / "part-000001.parquet").unlink()
    begun = shutil.copytree(corpus, tmp_path / "begun")
    (begun / "plan.json").unlink()
    newer = shutil.copytree(corpus, tmp_path / "newer")
    part = newer / "parts" / "part-000000.parquet"
    table = pq.read_table(part)
    pq.write_table(table.replace_schema_metadata({b"slalom_corpus_version": b"9"}), part)
    foreign = shutil.copytree(corpus, tmp_path / "foreign")
    (foreign / "manifest.json").write_text(json.dumps({"format": "other"}))
    broken = shutil.copytree(corpus, tmp_path / "broken")
    (broken / "parts" / "part-000002.parquet").write_bytes(b"PAR1")
    audit_begun = shutil.copytree(audit, tmp_path / "audit_begun")
    (audit_begun / "report.html").unlink()
    audit_newer = shutil.copytree(audit, tmp_path / "audit_newer")
    (audit_newer / "audit.json").write_text(json.dumps({"format": "slalom-audit", "version": 9}))
    for folder, said in {
        unfinished: "has 2 of 3 parts: give the same slalom corpus command again",
        begun: "has hardly begun",
        newer: "has version 9 of the columns, and this is version 2",
        foreign: "holds no corpus",
        broken: "cannot read .*part-000002.parquet",
        audit_begun: "lacks report.html: the audit is not finished",
        audit_newer: "has version 9, and this is version 1",
        tmp_path / "nowhere": "holds neither a corpus nor an audit",
    }.items():
        with pytest.raises(InputError, match=said):
            open_folder(folder)
