package suite;

import java.util.List;

/** One named check of the client against a server; the body throws if something is not so. */
record Scenario(String name, Body body) {
    @FunctionalInterface
    interface Body {
        void run(Scene scene) throws Exception;
    }

    /** A class with scenarios, which Main finds by name: some versions of the client lack some. */
    interface Source {
        List<Scenario> scenarios();
    }
}
