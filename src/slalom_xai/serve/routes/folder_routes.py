"""The folder of a corpus or of an audit: looked at, never changed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from slalom_xai.serve import schema
from slalom_xai.serve.folder import FILES, AuditFolder, Order, StoredCorpus
from slalom_xai.serve.service import Problem, Service

# The files have styles and scripts inside. They run as a page of nobody, which can reach nothing.
_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def router(service: Service) -> APIRouter:
    """The addresses."""
    routes = APIRouter(tags=["folder"], responses=schema.problems())
    folder = service.folder

    def corpus() -> StoredCorpus:
        if not isinstance(folder, StoredCorpus):
            raise Problem(404, "this server shows no corpus: start it with --folder FOLDER")
        return folder

    @routes.get("/api/folder")
    def described() -> schema.Folder:
        """What the folder is."""
        if isinstance(folder, StoredCorpus):
            model = folder.corpus.manifest["explained with"]["model"] or "embedded"
            name = folder.path.name
            return schema.Folder(kind="corpus", name=name, model=model, texts=folder.texts)
        if isinstance(folder, AuditFolder):
            return schema.Folder(
                kind="audit",
                name=folder.path.name,
                model=folder.record["model"],
                numbers=folder.record["numbers"],
                files=folder.files,
            )
        return schema.Folder(kind=None)

    @routes.get("/api/folder/texts")
    def texts(
        order: Order = "row",
        start: Annotated[int, Query(ge=0, le=2**62)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> schema.ListedTexts:
        """Some texts of the corpus."""
        listed = [schema.ListedText(**text) for text in corpus().page(order, start, limit)]
        return schema.ListedTexts(texts=listed, total=corpus().texts)

    @routes.get("/api/folder/texts/{number}")
    def text(number: Annotated[int, Path(ge=1, le=2**62)]) -> schema.StoredText:
        """A text of the corpus with its scores."""
        found = corpus().text(number)
        if found is None:
            raise Problem(404, f"the corpus has {corpus().texts:,} texts, and no number {number}")
        return schema.StoredText(**found)

    @routes.get("/folder/{name}", include_in_schema=False)
    def file(name: str) -> Response:
        content = folder.read(name) if isinstance(folder, AuditFolder) else None
        if content is None:
            raise Problem(404, "there is no such file")
        headers = {"content-security-policy": _POLICY}
        return Response(content, 200, headers, FILES[name])

    return routes
