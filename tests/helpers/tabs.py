"""Pages in a browser whose complaints are heard."""

from __future__ import annotations


class Tabs:
    """Opens pages that complain to ``heard``.

    Args:
        browser: a real one.
        hosts: how the addresses begin that a page may ask for.
    """

    def __init__(self, browser: object, hosts: tuple[str, ...]) -> None:
        self._browser, self._hosts = browser, (*hosts, "about:", "data:", "blob:")
        self.contexts: list[object] = []
        self.heard: list[str] = []

    def open(self, address: str, *, quiet: bool = True, **options: object) -> object:
        """A page of its own context; unless ``quiet``, what it says to the console is not heard."""
        options.setdefault("viewport", {"width": 1200, "height": 900})
        context = self._browser.new_context(**options)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine is not a failure
        if quiet:
            page.on("console", lambda message: self.heard.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: self.heard.append(str(error)))
            page.on(
                "request",
                lambda request: (
                    request.url.startswith(self._hosts) or self.heard.append(request.url)
                ),
            )
        page.on("dialog", lambda dialog: self.heard.append(f"dialog: {dialog.message}"))
        page.goto(address)
        return page

    def close(self) -> None:
        """Closes all of them."""
        for context in self.contexts:
            context.close()
