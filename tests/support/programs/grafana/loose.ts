// A type as JSON can hold it: members of enumerations are their values.
export type Loose<T> = unknown extends T
  ? T
  : T extends string
    ? `${T}`
    : T extends number
      ? number
      : T extends readonly (infer U)[]
        ? Loose<U>[]
        : T extends object
          ? { [K in keyof T]: Loose<T[K]> }
          : T;
